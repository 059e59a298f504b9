-- What happened, to whom, by whom; ids and codes only, never a value that opens anything (spec 1.5, 6.2).
create table audit_event (
  event_id uuid primary key,
  at timestamptz not null,
  project_id uuid references project,
  actor text not null,
  action text not null,
  outcome text not null check (outcome in ('done', 'refused')),
  code text,
  -- The ids concerned, e.g. {"credential_id": "…", "bridge_id": "…"}; read by people, never searched.
  subject jsonb not null,
  address text not null,
  user_agent text not null,
  count int not null default 1 check (count > 0),
  -- Refusals repeat: within a minute the same code for the same subject counts up in one row.
  -- Without the unique index a caller with one valid secret could fill the disk.
  refusal_key text,
  check ((outcome = 'refused') = (refusal_key is not null and code is not null))
);
create unique index one_row_per_minute_and_refusal on audit_event (refusal_key) where refusal_key is not null;
create index audit_event_by_project on audit_event (project_id, at);
create index audit_event_by_time on audit_event (at);
