-- The bytes of pinned documents, as git stores them; several pins may share one. Never changed: the name is the content's hash.
create table document_blob (
  -- SHA-1 or SHA-256 over git's header and the bytes, lower-case hex.
  blob_oid text primary key check (blob_oid ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'),
  -- Beside it because SHA-1 can be collided.
  sha256 bytea not null check (length(sha256) = 32),
  size_bytes int not null check (size_bytes between 0 and 1048576),
  line_count int not null,
  bytes bytea not null check (length(bytes) = size_bytes)
);

-- A document that agents of a project may read (spec 4.11): one path of one commit of a repository that the operator named.
create table pinned_document (
  project_id uuid not null references project,
  document_id uuid not null,
  repository text not null check (repository <> ''),
  commit text not null check (commit ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'),
  path text not null check (path <> ''),
  mode text not null check (mode in ('100644', '100755')),
  blob_oid text not null references document_blob,
  title text not null check (title <> ''),
  bootstrap boolean not null,
  pinned_at timestamptz not null,
  primary key (project_id, document_id),
  -- One pin per place: pinning again answers the same document.
  unique (project_id, repository, commit, path)
);
create index pinned_document_of_blob on pinned_document (blob_oid);
