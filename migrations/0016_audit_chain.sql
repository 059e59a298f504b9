-- The audit log becomes insert-only, partitioned by month, and chained by hashes. Indexes are rebuilt, rows are not copied.
-- A service of the release before keeps adding rows of changes. Its refusals are answered as before, but get no row.
lock table audit_event in access exclusive mode;

-- How often a refusal was repeated within its minute. The key is unique here, because a unique index over the partitions
-- of audit_event would have to contain `at`: two replicas would then write two rows for one refusal.
create table audit_refusal_count (
  refusal_key text primary key,
  event_id uuid not null unique,
  at timestamptz not null,
  count int not null default 1 check (count > 0)
);
create index audit_refusal_count_by_time on audit_refusal_count (at);
insert into audit_refusal_count (refusal_key, event_id, at, count)
select refusal_key, event_id, at, count from audit_event where refusal_key is not null;

-- All rows until now become the first partition; it is named after its last month at the end of this file.
alter table audit_event rename to audit_event_first;
alter table audit_event_first drop constraint audit_event_pkey;
alter table audit_event_first drop column refusal_key;
alter table audit_event_first drop column count;
alter table audit_event_first add constraint audit_event_refusal_has_code check ((outcome = 'refused') = (code is not null));
-- A time that no service wrote would make this partition last forever: it becomes part of the subject.
update audit_event_first
   set at = clock_timestamp(), subject = subject || jsonb_build_object('at', at)
 where at > clock_timestamp() + interval '1 day' or at < '1900-01-01 00:00:00+00';
alter table audit_event_first add constraint audit_event_at_is_a_date
  check (at >= '1900-01-01 00:00:00+00' and at < '3000-01-01 00:00:00+00');
drop index audit_event_by_time;
alter index audit_event_by_project rename to audit_event_first_project_id_at_idx;
alter index audit_event_refused rename to audit_event_first_at_idx;

-- What happened, to whom, by whom; ids and codes only, never a value that opens anything (spec 1.5, 6.2).
create table audit_event (
  event_id uuid not null,
  -- A year of four digits, so that whoever reads it finds an instant: 'infinity' is none.
  at timestamptz not null constraint audit_event_at_is_a_date
    check (at >= '1900-01-01 00:00:00+00' and at < '3000-01-01 00:00:00+00'),
  project_id uuid references project,
  actor text not null,
  action text not null,
  outcome text not null constraint audit_event_outcome_check check (outcome in ('done', 'refused')),
  code text,
  -- The ids concerned, e.g. {"credential_id": "…", "bridge_id": "…"}; read by people, never searched.
  subject jsonb not null,
  address text not null,
  user_agent text not null,
  primary key (at, event_id),
  constraint audit_event_refusal_has_code check ((outcome = 'refused') = (code is not null))
) partition by range (at);
create index audit_event_by_id on audit_event (event_id);
create index audit_event_by_project on audit_event (project_id, at);
create index audit_event_refused on audit_event (at) where outcome = 'refused';

-- Where a row stands in a chain: in the chain of all rows (`all`), and in that of its project (the project's id).
create table audit_link (
  event_id uuid not null,
  -- That of the row, so that links are dropped with their rows.
  at timestamptz not null constraint audit_link_at_is_a_date
    check (at >= '1900-01-01 00:00:00+00' and at < '3000-01-01 00:00:00+00'),
  scope text not null,
  -- 1, 2, 3 and so on in each scope, without gaps.
  seq bigint not null check (seq > 0),
  -- The first 8 bytes of the SHA-256 of the row: they tell which row of a block was changed.
  digest bytea not null check (octet_length(digest) = 8),
  primary key (scope, seq, at, event_id),
  -- Without it a row could be linked twice.
  unique (at, event_id, scope)
) partition by range (at);

-- A head of a chain: the SHA-256 of the previous head and of the rows after it, up to `seq`. The seq is also their count.
create table audit_chain (
  scope text not null,
  seq bigint not null check (seq > 0),
  head bytea not null check (octet_length(head) = 32),
  at timestamptz not null,
  primary key (scope, seq)
);
create index audit_chain_by_time on audit_chain (scope, at);

-- How far the rows are linked. Whoever locks the row links; there is at most one.
create table audit_chain_progress (
  singleton boolean primary key default true check (singleton),
  -- Each row before this instant is linked, if it was committed; null if none was looked at yet.
  linked_before timestamptz,
  heads_logged_at timestamptz
);

-- Takes privileges on a table from every account but its owner; default privileges may have granted them.
create function withhold(relation regclass, privileges text) returns void language plpgsql as $$
declare grantee text;
begin
  for grantee in
    select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
      from pg_class c
     cross join aclexplode(c.relacl) a
     where c.oid = relation
       and a.grantee <> c.relowner
  loop
    execute format('revoke %s on %s from %s', privileges, relation, grantee);
  end loop;
end $$;
select withhold(name::regclass, 'update, delete, truncate')
  from unnest('{audit_event,audit_link,audit_chain}'::text[]) name;

-- The partitions of a table are named after their last month: audit_event_2026_11 ends before 2026-12-01T00:00Z.
-- Each begins where the one before ends, and the first at the beginning of time.
create function audit_log_end() returns date language sql stable as $$
  select (to_date(max(right(relname, 7)), 'YYYY_MM') + interval '1 month')::date
    from pg_inherits
    join pg_class on pg_class.oid = inhrelid
   where inhparent = 'audit_event'::regclass
     and relname ~ '^audit_event_\d{4}_\d\d$' $$;

create function month_bound(month date) returns text language sql immutable as $$
  select quote_literal(to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00') $$;

create function attach_audit_partition(parent text, partition text, lower text, upper date) returns void
language plpgsql as $$
declare name text := format('%s_%s', parent, to_char(upper - 1, 'YYYY_MM'));
begin
  execute format('alter table %I rename to %I', partition, name);
  execute format('alter table %I attach partition %I for values from (%s) to (%s)',
                 parent, name, lower, month_bound(upper));
  -- Rows are read and written through the parent, which needs privileges on the parent only.
  perform withhold(name::regclass, 'all');
end $$;

-- Makes the partitions before `until`. Rows that found no partition are in the default one: that one becomes the
-- partition of all months up to its last row before `until`. Rows of other times, which no service writes, stay in a
-- default partition: verification names them.
create function extend_audit_log(until date) returns int language plpgsql as $$
declare
  lower date := audit_log_end();
  upper date;
  parent text;
  made int := 0;
begin
  loop
    select (date_trunc('month', max(at)) + interval '1 month')::date
      into upper
      from (select at at time zone 'UTC' from audit_event_default
            union all
            select at at time zone 'UTC' from audit_link_default) stray (at)
     where at >= lower
       and at < until;
    exit when lower >= until;
    foreach parent in array array['audit_event', 'audit_link'] loop
      if upper is null then
        execute format('create table %I (like %I including all)', parent || '_next', parent);
        perform attach_audit_partition(parent, parent || '_next', month_bound(lower),
                                       (lower + interval '1 month')::date);
      else
        execute format('alter table %I detach partition %I', parent, parent || '_default');
        execute format('alter table %I rename to %I', parent || '_default', parent || '_stray');
        perform make_audit_default(parent);
        execute format('with other as (delete from %I where at < %s or at >= %s returning *)
                        insert into %I select * from other',
                       parent || '_stray', month_bound(lower), month_bound(upper), parent);
        perform attach_audit_partition(parent, parent || '_stray', month_bound(lower), upper);
      end if;
    end loop;
    lower := coalesce(upper, (lower + interval '1 month')::date);
    made := made + 1;
  end loop;
  return made;
end $$;

-- Where a row goes whose month has no partition: the change that it records must not fail.
create function make_audit_default(parent text) returns void language plpgsql as $$
begin
  execute format('create table %I partition of %I default', parent || '_default', parent);
  perform withhold((parent || '_default')::regclass, 'all');
end $$;

create table audit_link_first (like audit_link including all);
select attach_audit_partition(parent, parent || '_first', 'minvalue', upper)
  from (select (date_trunc('month', greatest(max(at), clock_timestamp()) at time zone 'UTC') + interval '1 month')::date
          from audit_event_first) log (upper)
 cross join unnest('{audit_event,audit_link}'::text[]) parent;
select make_audit_default('audit_event'), make_audit_default('audit_link');
select extend_audit_log((date_trunc('month', clock_timestamp() at time zone 'UTC') + interval '13 months')::date);

-- A service of the release before deletes old rows one by one. That would break the chain, and must fail until it is
-- restarted into this release: a month is dropped as a whole.
create function audit_event_is_insert_only() returns trigger language plpgsql as $$
begin
  raise exception 'Audit rows are neither changed nor deleted.' using errcode = 'insufficient_privilege';
end $$;
create trigger audit_event_is_insert_only before update or delete on audit_event
  for each row execute function audit_event_is_insert_only();
