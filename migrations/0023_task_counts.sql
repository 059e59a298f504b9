-- Reading a project's tasks and counting its receipts costs the same however many it has.

-- How many of a task's dependencies are unfinished, so that ready tasks are found by an index. Triggers keep it, whatever
-- statement writes: tools, import, restored backups, and replicas of the release before.
alter table task add column waits_for int not null default 0;

update task t
   set waits_for = c.unfinished
  from (select d.project_id, d.task_id, count(*)::int as unfinished
          from task_dependency d
          join task o on o.project_id = d.project_id and o.id = d.depends_on
         where o.closed_at is null
         group by d.project_id, d.task_id) c
 where t.project_id = c.project_id
   and t.id = c.task_id;

-- In the order of the startup snapshot: in progress, ready, blocked, and with unfinished dependencies. The expression is
-- that of TaskStore.ts.
drop index task_unfinished;
create index task_unfinished on task (
  project_id,
  (case when status = 'in_progress' then 0
        when status = 'open' and waits_for = 0 then 1
        when status = 'blocked' then 2
        else 3 end),
  priority, created_at, id)
 where closed_at is null;

-- A new task has no dependencies yet; a restored backup brings a count, and then the dependencies that are counted again.
create function task_waits_for_nothing() returns trigger language plpgsql as $$
begin
  new.waits_for := 0;
  return new;
end $$;
create trigger task_waits_for_nothing before insert on task
  for each row when (new.waits_for is distinct from 0) execute function task_waits_for_nothing();

-- The lock makes a statement that closes or reopens a dependency wait: it then sees these rows and counts them itself.
-- Each statement of the function has a newer snapshot than the lock before it.
create function task_dependency_counted() returns trigger language plpgsql as $$
begin
  perform 1
     from task o
    where (o.project_id, o.id) in (select c.project_id, c.depends_on from changed c)
    order by o.project_id, o.id
      for share;
  update task t
     set waits_for = t.waits_for + case tg_op when 'INSERT' then c.unfinished else - c.unfinished end
    from (select d.project_id, d.task_id, count(*)::int as unfinished
            from changed d
            join task o on o.project_id = d.project_id and o.id = d.depends_on
           where o.closed_at is null
           group by d.project_id, d.task_id) c
   where t.project_id = c.project_id
     and t.id = c.task_id;
  return null;
end $$;
create trigger task_dependency_added after insert on task_dependency
  referencing new table as changed for each statement execute function task_dependency_counted();
create trigger task_dependency_removed after delete on task_dependency
  referencing old table as changed for each statement execute function task_dependency_counted();

create function task_finish_counted() returns trigger language plpgsql as $$
begin
  update task t
     set waits_for = t.waits_for + case when new.closed_at is null then 1 else -1 end
    from task_dependency d
   where d.project_id = new.project_id
     and d.depends_on = new.id
     and t.project_id = d.project_id
     and t.id = d.task_id;
  return null;
end $$;
create trigger task_finish_counted after update of closed_at on task
  for each row when ((old.closed_at is null) <> (new.closed_at is null)) execute function task_finish_counted();

-- Receipts of the project, counted by the statements that insert them. Replicas of the release before do not count: a
-- rolling upgrade leaves the number lower by what those wrote.
alter table project_usage add column receipts bigint not null default 0;
insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks, receipts)
select project_id, 0, 0, 0, 0, count(*)
  from receipt
 group by project_id
    on conflict (project_id) do update set receipts = excluded.receipts;
