-- A project whose earlier entries the sweep "index dates" still has to read: those after `after`, in the order of their ids.
-- The sweep waits for an hour, so that it also reads what replicas of the release before write meanwhile.
create table memory_reindex (
  project_id uuid primary key references project,
  after uuid not null default '00000000-0000-0000-0000-000000000000',
  due_at timestamptz not null
);
insert into memory_reindex (project_id, due_at)
select project_id, now() + interval '1 hour'
  from project_usage
 where entries > 0;
