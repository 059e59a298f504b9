-- The task that a task is part of: stored and filtered by, without any other effect. The constraint can wait for the end of a
-- transaction, because an import brings a task before its parent.
alter table task add column parent uuid;
alter table task add constraint task_parent foreign key (project_id, parent) references task (project_id, id) deferrable;
create index task_of_parent on task (project_id, parent, priority, created_at, id) where parent is not null;
