-- Erasures (decisions.md, Erasure): what an operator destroyed or a retention period ended, by ids and times only. The rows
-- settle a line of SERVICE_ERASURE_FILE that was left open, and answer a command that is repeated.
create table erasure (
  erasure_id uuid primary key,
  kind text not null check (kind in ('memory', 'task', 'document', 'project', 'retention', 'subject')),
  -- No foreign keys: a restored backup may be older than what was erased.
  project_id uuid not null,
  -- The entry, task, document or project token; null for a project and for a retention period.
  target_id uuid,
  -- For a retention period: what was written before these times is gone.
  memory_before timestamptz,
  receipts_before timestamptz,
  erased_at timestamptz not null
);
create index erasure_of on erasure (project_id, kind, target_id);

alter table project
  -- When delete-project takes effect.
  add column delete_after timestamptz,
  -- The row of a deleted project stays, without its name: audit rows refer to it.
  add column deleted_at timestamptz;
create index project_to_delete on project (delete_after) where delete_after is not null and deleted_at is null;
-- Projects with a retention period.
create index project_retention on project (project_id) where limits ?| array['memory_days', 'receipt_days'];

-- Replaced keys of web push are deleted when nobody depends on them.
create index web_push_key_replaced on web_push_key (replaced_at) where replaced_at is not null;
