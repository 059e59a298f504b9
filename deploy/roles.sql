-- Two accounts for the service's database, so that whoever takes over the service cannot rewrite its audit log:
--
--   bridge_service_owner   owns the tables: migrations, partitions of the audit log, restore (SERVICE_DATABASE_OWNER_URL)
--   bridge_service         serves: reads and writes rows, and only adds to the audit log (DATABASE_URL)
--
-- Run it as a superuser on the service's database, before the first start or later; repeating it changes nothing:
--
--   psql -d bridge -f deploy/roles.sql
--
-- Then give both a password (\password bridge_service) and see "Two database accounts" in docs/run.md.
do $$
declare name text;
begin
  foreach name in array array['bridge_service_owner', 'bridge_service'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I login', name);
    end if;
    execute format('grant connect on database %I to %I', current_database(), name);
  end loop;
end $$;

grant usage, create on schema public to bridge_service_owner;
grant usage on schema public to bridge_service;
revoke create on schema public from public, bridge_service;

-- Tables of an account that owned everything so far get the new owner; their indexes and partitions follow.
do $$
declare thing record;
begin
  for thing in
    select c.oid::regclass as name
      from pg_class c
     where c.relnamespace = 'public'::regnamespace
       and c.relkind in ('r', 'p')
       and c.relowner <> 'bridge_service_owner'::regrole
       and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
  loop
    execute format('alter table %s owner to bridge_service_owner', thing.name);
  end loop;
  for thing in
    select p.oid::regprocedure as name
      from pg_proc p
     where p.pronamespace = 'public'::regnamespace
       and p.proowner <> 'bridge_service_owner'::regrole
       and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
  loop
    execute format('alter function %s owner to bridge_service_owner', thing.name);
  end loop;
end $$;

-- What exists, and what future migrations create.
grant select, insert, update, delete on all tables in schema public to bridge_service;
grant usage, select on all sequences in schema public to bridge_service;
alter default privileges for role bridge_service_owner in schema public
  grant select, insert, update, delete on tables to bridge_service;
alter default privileges for role bridge_service_owner in schema public
  grant usage, select on sequences to bridge_service;

-- The audit log is added to. Its partitions are reached through their parents only. Migration 0016 and every new
-- partition do the same, so the order of this file and of the migrations does not matter.
do $$
declare name regclass;
begin
  if to_regclass('public.audit_link') is null then
    return;
  end if;
  revoke update, delete, truncate on audit_event, audit_link, audit_chain from bridge_service;
  for name in
    select inhrelid::regclass
      from pg_inherits
     where inhparent in ('audit_event'::regclass, 'audit_link'::regclass)
  loop
    execute format('revoke all on %s from bridge_service', name);
  end loop;
end $$;
