-- Who holds a task that is at work: the credential, besides the name in `assignee`. Null in what earlier releases claimed,
-- and after the holder has handed the task to somebody else by name.
alter table task add column claimed_by text;

-- A remark on a task between receipts. It changes no version.
create table task_note (
  project_id uuid not null,
  id uuid not null,
  task_id uuid not null,
  text text not null,
  actor text not null,
  created_at timestamptz not null,
  primary key (project_id, id),
  foreign key (project_id, task_id) references task (project_id, id)
);
create index task_note_of_task on task_note (project_id, task_id, created_at desc, id desc);
