-- A passkey: an authenticator that signs in for the holder of a project token. Only its public key is stored.
create table person_key (
  person_key_id uuid primary key,
  -- Chosen by the authenticator. Unique, because a sign-in names the key by it alone.
  credential_id bytea not null unique check (length(credential_id) between 16 and 1023),
  -- A COSE key.
  public_key bytea not null check (length(public_key) between 16 and 1024),
  -- How often the authenticator has signed; 0 if it does not count. A lower count comes from a copy.
  sign_count bigint not null check (sign_count between 0 and 4294967295),
  label text not null check (length(label) between 1 and 80),
  project_token_id uuid not null references project_token,
  project_id uuid not null references project,
  created_at timestamptz not null,
  last_used_at timestamptz,
  -- When its count fell.
  disabled_at timestamptz,
  removed_at timestamptz,
  -- When its token expires, so that the sweep finds it.
  expires_at timestamptz
);
create index person_key_of_token on person_key (project_token_id, person_key_id);
create index person_key_of_project on person_key (project_id, person_key_id);
create index person_key_by_removal on person_key (removed_at) where removed_at is not null;
create index person_key_by_expiry on person_key (expires_at) where expires_at is not null;

-- A challenge for a browser that makes or uses a passkey. Using it sets `used_at`, so that it works once at any replica.
create table person_key_challenge (
  challenge_hash bytea primary key check (length(challenge_hash) = 32),
  -- The hash of what tells the browser that asked: the id of its console session, or its cookie before it signs in.
  browser_hash bytea not null check (length(browser_hash) = 32),
  -- The session, or what limits count as one client address: it has a bounded number of open challenges.
  asked_by text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null check (expires_at > created_at),
  used_at timestamptz
);
create index person_key_challenge_open on person_key_challenge (asked_by, created_at desc) where used_at is null;
create index person_key_challenge_by_expiry on person_key_challenge (expires_at);

-- The passkey that opened the session, or that was used at consent. Without a foreign key: it ends even if its row is purged.
alter table console_session add column person_key_id uuid;
alter table oauth_request add column person_key_id uuid;
