-- A key rotation (decisions.md, Key rotation): the way from the enrolled key of a Bridge to a new one in two phases.
-- It is pending while its Bridge names it and its window is open, so whatever ends it only clears that name.
create table bridge_key_rotation (
  key_rotation_id uuid primary key,
  identity_id uuid not null references bridge_identity,
  public_key_fingerprint text not null check (public_key_fingerprint ~ '^sha256:[0-9a-f]{64}$'),
  -- Of the key that the new one replaces. It still proves an exact retry of the confirm.
  old_fingerprint text not null check (old_fingerprint <> public_key_fingerprint),
  nonce_hash bytea not null check (length(nonce_hash) = 32),
  derivation_salt bytea not null check (length(derivation_salt) = 32),
  key_id text not null,
  created_at timestamptz not null,
  confirmation_expires_at timestamptz not null,
  prepare_key_hash bytea not null check (length(prepare_key_hash) = 32),
  outcome text check (outcome in ('confirmed', 'aborted')),
  end_key_hash bytea check (length(end_key_hash) = 32),
  end_request_hash bytea check (length(end_request_hash) = 32),
  ended_at timestamptz,
  -- One key rotation per prepare key: an exact retry finds its own and no other.
  unique (identity_id, prepare_key_hash),
  check ((outcome is null) = (ended_at is null)),
  check ((outcome is null) = (end_key_hash is null)),
  check ((outcome is null) = (end_request_hash is null))
);
create index bridge_key_rotation_by_identity on bridge_key_rotation (identity_id, created_at);
create index bridge_key_rotation_by_end on bridge_key_rotation (confirmation_expires_at);

-- The pending key rotation and the end of its window, on the row that every writer locks.
alter table bridge_identity add column pending_key_rotation_id uuid references bridge_key_rotation;
alter table bridge_identity add column key_rotation_until timestamptz;
alter table bridge_identity
  add constraint key_rotation_has_end check ((pending_key_rotation_id is null) = (key_rotation_until is null));
create index bridge_identity_key_rotation_due on bridge_identity (key_rotation_until)
  where key_rotation_until is not null;
-- For the foreign key: a purge would otherwise read every identity for each row that it deletes.
create index bridge_identity_by_key_rotation on bridge_identity (pending_key_rotation_id)
  where pending_key_rotation_id is not null;

-- Since when the Bridge has its key; null if it is the key of its last enrollment.
alter table bridge_identity add column key_since timestamptz;
-- Since when an operator wants a new key.
alter table bridge_identity add column key_rotation_required_since timestamptz;
