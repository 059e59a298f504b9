-- What a project knows (spec 2.8): notes and decisions. A body is never edited: what is outdated is superseded or archived.
-- Every key of this file starts with the project, so that no statement can cross it and one project's size is not another's cost.
create table memory_entry (
  project_id uuid not null references project,
  id uuid not null,
  kind text not null check (kind in ('note', 'decision')),
  title text not null check (title <> ''),
  body text not null check (body <> ''),
  tags text[] not null,
  active boolean not null default true,
  supersedes uuid,
  superseded_by uuid,
  superseded_at timestamptz,
  -- Provenance: the credential's id, never the credential.
  actor text not null,
  role text not null,
  session_ref text,
  task_id uuid,
  source text,
  created_at timestamptz not null,
  primary key (project_id, id),
  -- The fences: without them an entry could point into another project.
  foreign key (project_id, supersedes) references memory_entry (project_id, id) deferrable,
  foreign key (project_id, superseded_by) references memory_entry (project_id, id) deferrable,
  -- What was superseded is out of use; without this a search would still find it.
  check (superseded_by is null or not active),
  check ((superseded_by is null) = (superseded_at is null))
);
-- One successor per entry: two agents that correct the same note at once would leave two truths.
create unique index one_successor on memory_entry (project_id, supersedes) where supersedes is not null;
create index memory_entry_recent on memory_entry (project_id, created_at desc, id desc) where active;
create index memory_entry_recent_kind on memory_entry (project_id, kind, created_at desc, id desc) where active;

-- Search: how often (tf) a lexeme stands in an active entry of dl lexemes. Only active entries have postings, so the ranking
-- reads this index alone; it covers the whole row for that. No foreign key: it would cost one look-up per lexeme and entry.
create table memory_posting (
  project_id uuid not null,
  lexeme text not null,
  entry_id uuid not null,
  tf int not null,
  dl int not null,
  primary key (project_id, lexeme, entry_id) include (tf, dl)
);
-- Index-only scans need the visibility map; the default of 20 % dead rows lets it go stale in a large table.
alter table memory_posting set (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);

-- How many active entries a project has, in 16 parts that are added up: one row would make parallel writers wait in line.
create table memory_count (
  project_id uuid not null references project,
  part smallint not null check (part between 0 and 15),
  active int not null,
  primary key (project_id, part)
);

-- A task (spec 2.8, 3.5). The row is the lock of everything that happens to it and to its receipts.
create table task (
  project_id uuid not null references project,
  id uuid not null,
  title text not null check (title <> ''),
  body text not null,
  status text not null check (status in ('open', 'in_progress', 'blocked', 'done', 'cancelled')),
  priority smallint not null check (priority between 0 and 4),
  tags text[] not null,
  assignee text,
  claimed_at timestamptz,
  -- Counts every change; an update names the version it has read (spec 4.11).
  version int not null check (version >= 1),
  blocked_reason text,
  blocked_kind text check (blocked_kind in ('decision', 'external', 'other')),
  created_by text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  closed_at timestamptz,
  primary key (project_id, id),
  check ((status = 'blocked') = (blocked_kind is not null)),
  check (status = 'blocked' or blocked_reason is null),
  check ((status in ('done', 'cancelled')) = (closed_at is not null))
);
create index task_by_priority on task (project_id, priority, created_at, id);
create index task_by_update on task (project_id, updated_at desc, id desc);
create index task_unfinished on task (project_id, status, priority, created_at, id) where closed_at is null;

-- `task_id` waits for `depends_on`. Both are of one project; that the graph has no cycle is checked under a lock per project.
create table task_dependency (
  project_id uuid not null,
  task_id uuid not null,
  depends_on uuid not null,
  primary key (project_id, task_id, depends_on),
  foreign key (project_id, task_id) references task (project_id, id),
  foreign key (project_id, depends_on) references task (project_id, id),
  check (task_id <> depends_on)
);
create index task_dependency_of on task_dependency (project_id, depends_on);

-- A work-session receipt (spec 2.8): what one session left behind, inserted with the task update that reports it.
create table receipt (
  project_id uuid not null,
  id uuid not null,
  task_id uuid not null,
  session_ref text not null,
  worker text not null,
  thread text,
  outcome text not null check (outcome in ('progress', 'handoff', 'completed', 'blocked')),
  summary text not null,
  next_steps text[] not null,
  pitfalls text[] not null,
  -- Read by the next worker, never searched.
  git_checkpoint jsonb,
  task_version_after int not null,
  task_status_after text not null,
  actor text not null,
  created_at timestamptz not null,
  primary key (project_id, id),
  foreign key (project_id, task_id) references task (project_id, id),
  -- Receipt identity (spec 4.11): without it a retry would write a session's receipt twice.
  unique (project_id, task_id, session_ref)
);
create index receipt_recent on receipt (project_id, created_at desc, id desc);
create index receipt_of_task on receipt (project_id, task_id, created_at desc, id desc);

-- The answer to a mutation that came with an idempotency_key (spec 4.11). The row is inserted first and filled before the
-- commit: whoever comes with the same key meanwhile waits for it. A mutation that fails takes its row with it.
create table idempotency_record (
  project_id uuid not null references project,
  tool text not null,
  idempotency_key text not null,
  request_hash bytea not null check (length(request_hash) = 32),
  result text not null default '',
  created_at timestamptz not null,
  primary key (project_id, tool, idempotency_key)
);
create index idempotency_record_by_time on idempotency_record (created_at);
