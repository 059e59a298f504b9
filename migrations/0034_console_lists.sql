-- The audit log of a project by kind, and of one actor or subject by kind, each page by key: a few rows of each index.
create index audit_event_by_action on audit_event (project_id, action, at);
create index audit_event_by_actor_id on audit_event (
  project_id, (substring(actor from position(':' in actor) + 1)), action, at);
-- The id of what an event is about: of several, the one that people look for.
create index audit_event_by_subject on audit_event (
  project_id,
  (coalesce(subject ->> 'task_id', subject ->> 'entry_id', subject ->> 'bridge_id', subject ->> 'grant_id',
            subject ->> 'project_token_id', subject ->> 'credential_id', subject ->> 'device_id',
            subject ->> 'document_id', subject ->> 'client_id', subject ->> 'session_id', subject ->> 'reference')),
  action, at);
create index audit_event_refused_by_project on audit_event (project_id, at) where outcome = 'refused';
-- What was closed lately, among many tasks that are not.
create index task_closed on task (project_id, updated_at desc, id desc) where closed_at is not null;
-- The unfinished ones by priority, among many that are closed.
create index task_unfinished_by_priority on task (project_id, priority, created_at, id) where closed_at is null;
