-- What a project may cost. `limits` holds only what the operator changed, by name: {"entries": 500000}; the defaults are
-- in the code.
alter table project add column limits jsonb not null default '{}' check (jsonb_typeof(limits) = 'object');

-- What a project has stored, counted by the statements that write: the row stays locked until their transaction ends. A
-- receipt counts for 1 KiB besides its text, because only its bytes are limited. Replicas of the release before do not count: a rolling upgrade leaves the numbers
-- lower by what those wrote.
create table project_usage (
  project_id uuid primary key references project,
  -- Text of memory, tasks, receipts and remembered answers, in bytes of UTF-8.
  stored_bytes bigint not null,
  -- Postings of the search: their lexeme and 24 bytes each.
  index_bytes bigint not null,
  entries bigint not null,
  tasks bigint not null
-- Every write changes the row: room for new versions on its page keeps the primary key's index untouched.
) with (fillfactor = 20);

insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
select p.project_id,
       coalesce(e.bytes, 0) + coalesce(t.bytes, 0) + coalesce(r.bytes, 0) + coalesce(a.bytes, 0),
       coalesce(i.bytes, 0), coalesce(e.rows, 0), coalesce(t.rows, 0)
  from project p
  left join (select project_id, count(*) as rows,
                    sum(octet_length(title) + octet_length(body) + octet_length(array_to_string(tags, ''))) as bytes
               from memory_entry
              group by project_id) e on e.project_id = p.project_id
  left join (select project_id, count(*) as rows,
                    sum(octet_length(title) + octet_length(body) + octet_length(coalesce(blocked_reason, ''))
                        + octet_length(array_to_string(tags, ''))) as bytes
               from task
              group by project_id) t on t.project_id = p.project_id
  left join (select project_id,
                    sum(1024 + octet_length(summary) + octet_length(array_to_string(next_steps, ''))
                        + octet_length(array_to_string(pitfalls, ''))
                        + octet_length(coalesce(git_checkpoint::text, ''))) as bytes
               from receipt
              group by project_id) r on r.project_id = p.project_id
  left join (select project_id, sum(octet_length(result)) as bytes
               from idempotency_record
              group by project_id) a on a.project_id = p.project_id
  left join (select project_id, sum(octet_length(lexeme) + 24) as bytes
               from memory_posting
              group by project_id) i on i.project_id = p.project_id;

-- A project that has outgrown the defaults keeps working: its limits become twice its present use.
update project p
   set limits = own.limits
  from (select project_id,
               jsonb_strip_nulls(jsonb_build_object(
                 'stored_bytes', case when 2 * greatest(stored_bytes, (index_bytes + 3) / 4) > 1073741824
                                      then 2 * greatest(stored_bytes, (index_bytes + 3) / 4) end,
                 'entries', case when 2 * entries > 200000 then 2 * entries end,
                 'tasks', case when 2 * tasks > 50000 then 2 * tasks end)) as limits
          from project_usage) own
 where p.project_id = own.project_id
   and own.limits <> '{}';
