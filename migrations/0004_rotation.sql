-- A rotation (spec 2.6, 3.3): the way from an active token to its successor in two phases.
create table bridge_rotation (
  rotation_id uuid primary key,
  identity_id uuid not null references bridge_identity,
  predecessor_id uuid not null references bridge_token,
  successor_id uuid not null unique references bridge_token,
  -- 'cancelled': ended because the predecessor or the identity was revoked.
  state text not null check (state in ('pending', 'confirmed', 'aborted', 'expired', 'cancelled')),
  created_at timestamptz not null,
  -- Where the prepare came from: a prepare from elsewhere while this one is pending may be a thief's.
  prepared_from text not null,
  confirmation_expires_at timestamptz not null,
  prepare_key_hash bytea not null check (length(prepare_key_hash) = 32),
  end_key_hash bytea check (length(end_key_hash) = 32),
  ended_at timestamptz,
  -- One rotation per prepare key: an exact retry finds its own rotation and no other.
  unique (identity_id, prepare_key_hash),
  check ((state = 'pending') = (ended_at is null)),
  check ((state in ('confirmed', 'aborted')) = (end_key_hash is not null))
);
-- At most one pending rotation per identity (spec 8); the backstop of pending_rotation_id.
create unique index one_pending_rotation on bridge_rotation (identity_id) where state = 'pending';
create index bridge_rotation_by_end_key on bridge_rotation (identity_id, end_key_hash) where end_key_hash is not null;

-- What the sweeper looks for.
create index bridge_rotation_due on bridge_rotation (confirmation_expires_at) where state = 'pending';
create index bridge_token_due on bridge_token (expires_at) where state = 'active';

-- The pending rotation, on the row that every writer locks. "Nothing is pending" must be read from a locked row:
-- the absence of a row in another table is as old as the statement's snapshot.
alter table bridge_identity add column pending_rotation_id uuid references bridge_rotation;
alter table bridge_identity add column generation int not null default 0;
