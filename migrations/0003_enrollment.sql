-- A Bridge: one identity fenced to one project (spec 2.4, 3.1). It is the lock of everything that happens to its tokens:
-- whoever writes here or below locks this row first.
create table bridge_identity (
  identity_id uuid primary key,
  project_id uuid not null references project,
  bridge_id text not null,
  status text not null check (status in ('pending', 'active', 'revoked')),
  device_id text not null,
  display_name text not null,
  public_key_fingerprint text not null check (public_key_fingerprint ~ '^sha256:[0-9a-f]{64}$'),
  account_references text[] not null,
  -- Until then a pending identity is reserved for the key that asked; afterwards another key may take the name.
  challenge_expires_at timestamptz,
  -- The credential whose proof minted a token last; a re-enrollment credential that equals it is spent.
  enrolled_credential_id uuid,
  created_at timestamptz not null,
  enrolled_at timestamptz,
  revoked_at timestamptz,
  -- One identity per name: without it two enrollments at once would both become the Bridge.
  unique (project_id, bridge_id),
  check ((status = 'revoked') = (revoked_at is not null)),
  check (status <> 'active' or enrolled_at is not null)
);

-- The one-time credential an operator hands to a Bridge (spec 2.2). The secret itself is only in the operator's file.
create table bridge_enrollment_credential (
  credential_id uuid primary key,
  credential_hash bytea not null unique check (length(credential_hash) = 32),
  project_id uuid not null references project,
  account_references text[] not null check (cardinality(account_references) > 0),
  -- Set for re-enrollment: the one active identity whose key and tokens may be replaced.
  reenroll_bridge_id text,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  -- The Bridge that used it first; from then on it opens nothing for anybody else.
  claimed_at timestamptz,
  claimed_bridge_id text,
  claimed_device_id text,
  claimed_fingerprint text,
  -- Expiry of its latest challenge: a further one may be asked for only when this has passed.
  challenge_expires_at timestamptz,
  check ((claimed_at is null) = (claimed_bridge_id is null)),
  check ((claimed_at is null) = (claimed_device_id is null)),
  check ((claimed_at is null) = (claimed_fingerprint is null)),
  check ((claimed_at is null) = (challenge_expires_at is null))
);
create index bridge_enrollment_credential_by_project on bridge_enrollment_credential (project_id, created_at);

-- A bearer token of a Bridge (spec 2.5, 3.2), stored as hash. `derivation_salt` and `key_id` allow the exact retry that
-- minted it to derive the same token again, together with a secret that only the caller has.
create table bridge_token (
  token_id uuid primary key,
  identity_id uuid not null references bridge_identity,
  token_hash bytea not null unique check (length(token_hash) = 32),
  state text not null check (state in ('pending', 'active', 'revoked', 'expired')),
  derivation_salt bytea not null check (length(derivation_salt) = 32),
  key_id text not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  ended_at timestamptz,
  end_reason text,
  check ((state in ('revoked', 'expired')) = (ended_at is not null)),
  check ((state in ('revoked', 'expired')) = (end_reason is not null)),
  check (state not in ('active', 'expired') or expires_at is not null)
);
-- One credential per identity: confirm and re-enrollment replace the active token, they never add one (spec 3.2).
create unique index one_active_token on bridge_token (identity_id) where state = 'active';
-- At most one successor per identity (spec 8).
create unique index one_pending_successor on bridge_token (identity_id) where state = 'pending';
create index bridge_token_by_identity on bridge_token (identity_id, created_at);

-- A challenge (spec 2.3): what the Bridge declared, and the hash of the nonce it has to sign.
create table enrollment_challenge (
  challenge_id uuid primary key,
  credential_id uuid not null references bridge_enrollment_credential,
  identity_id uuid not null references bridge_identity,
  device_id text not null,
  display_name text not null,
  public_key_fingerprint text not null,
  idempotency_key_hash bytea not null check (length(idempotency_key_hash) = 32),
  request_hash bytea not null check (length(request_hash) = 32),
  nonce_hash bytea not null check (length(nonce_hash) = 32),
  derivation_salt bytea not null check (length(derivation_salt) = 32),
  key_id text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  consumed_at timestamptz,
  proof_key_hash bytea check (length(proof_key_hash) = 32),
  proof_request_hash bytea check (length(proof_request_hash) = 32),
  token_id uuid unique references bridge_token,
  -- One answer per key: without it a retry in flight could make a second challenge.
  unique (credential_id, idempotency_key_hash),
  -- A challenge mints at most one token, and is consumed exactly when it has.
  check ((consumed_at is null) = (token_id is null)),
  check ((consumed_at is null) = (proof_key_hash is null)),
  check ((consumed_at is null) = (proof_request_hash is null))
);
-- One proof per key and identity: a key that minted a token cannot mint another.
create unique index one_proof_per_key on enrollment_challenge (identity_id, proof_key_hash)
  where proof_key_hash is not null;
-- One token per credential: without it a re-enrollment credential could mint again after a later one was used.
create unique index one_token_per_credential on enrollment_challenge (credential_id) where consumed_at is not null;
create index enrollment_challenge_open on enrollment_challenge (identity_id, expires_at) where consumed_at is null;
