-- A task that is blocked for a decision carries its question, and then the answer of a person (spec 3.5).
-- Null in what earlier releases wrote, and in a file that they exported.
alter table task
  -- The answers to choose from, while the task is blocked for a decision.
  add column choices text[] check (cardinality(choices) between 2 and 6),
  -- Whose question it is. An answer by the same credential is marked.
  add column asked_by text,
  -- Who answered last, and the entry of memory that keeps the answer.
  add column answered_by text,
  add column answer_entry_id uuid,
  -- The answer as task_get and the startup snapshot carry it, until the next receipt of the task. Never searched.
  add column answer jsonb,
  -- The fence: without it an answer could name an entry of another project.
  add constraint task_answer_entry foreign key (project_id, answer_entry_id)
    references memory_entry (project_id, id) deferrable;

-- Answered tasks come first in the startup snapshot.
create index task_answered on task (project_id, updated_at desc, id desc) where answer is not null and closed_at is null;
-- Tasks that wait for a person come next. Without it a project with many blocked tasks reads all of them.
create index task_asked on task (project_id, priority, created_at, id)
 where status = 'blocked' and blocked_kind = 'decision';
