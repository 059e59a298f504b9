-- Unfinished tasks are counted by status and kind for each snapshot; the index has all that it needs.
create index task_unfinished_by_status on task (project_id, status, blocked_kind) where closed_at is null;
