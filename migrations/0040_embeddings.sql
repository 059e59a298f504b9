-- Vectors of memory entries, with SERVICE_EMBEDDINGS_URL only (decisions.md, Embeddings). An entry that is no longer active
-- has none.

-- Entries that wait for a vector.
create table embedding_queue (
  project_id uuid not null,
  entry_id uuid not null,
  -- A worker that takes the row sets it to the end of its lease.
  due_at timestamptz not null,
  attempts int not null default 0,
  primary key (project_id, entry_id),
  foreign key (project_id, entry_id) references memory_entry (project_id, id)
);
create index embedding_queue_by_due on embedding_queue (project_id, due_at);

-- The signs of up to 256 vectors, a bit each, so that a search reads all of a project in few rows: `ids` has 16 bytes for
-- each, zeros where the entry is no longer active. A process keeps blocks in memory; `version` tells whether they changed.
create table embedding_block (
  project_id uuid not null references project,
  model text not null,
  number int not null,
  version int not null default 1,
  ids bytea not null check (length(ids) between 16 and 4096 and length(ids) % 16 = 0),
  codes bytea not null,
  primary key (project_id, model, number)
);

-- The vector, a signed byte per dimension, and where its signs stand.
create table memory_embedding (
  project_id uuid not null,
  entry_id uuid not null,
  model text not null,
  number int not null,
  slot int not null,
  vector bytea not null,
  primary key (project_id, entry_id),
  foreign key (project_id, entry_id) references memory_entry (project_id, id)
);
