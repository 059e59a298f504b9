-- A phone that receives notifications (spec 2.9, 4.12): owned by one subject, the project token behind its sign-in.
create table mobile_device (
  device_id uuid primary key,
  project_id uuid not null references project,
  subject uuid not null,
  -- The sign-in that registered it; no foreign key, because grants are deleted 30 days after their end.
  client_id text not null,
  grant_id uuid not null,
  provider text not null check (provider in ('apns')),
  environment text not null check (environment in ('production', 'development')),
  topic text not null,
  -- The push token, sealed for this row (nonce, ciphertext, tag). Gone the moment the device is no longer active: a
  -- dump taken after a sign-out holds nothing of it.
  token_key_id text,
  token_sealed bytea,
  -- Keyed hash of provider, environment, topic and token: the same installation is found without decrypting.
  token_lookup bytea check (length(token_lookup) = 32),
  token_updated_at timestamptz not null,
  -- The provider asked to leave this device alone until then.
  resting_until timestamptz,
  app_version text,
  os_version text,
  locale text,
  -- revoked: by a person or an operator. inactive: the provider says that the installation is gone.
  state text not null check (state in ('active', 'revoked', 'inactive')),
  state_reason text,
  ended_at timestamptz,
  created_at timestamptz not null,
  last_seen_at timestamptz not null,
  preferences jsonb not null,
  preferences_version int not null default 1,
  check ((state = 'active') = (token_sealed is not null)),
  check ((token_sealed is null) = (token_key_id is null)),
  check ((token_sealed is null) = (token_lookup is null)),
  check ((state = 'active') = (ended_at is null))
);
-- One live record per installation: without it the next owner of a phone would see the last owner's notifications.
create unique index one_live_device_per_installation on mobile_device (token_lookup) where state = 'active';
create index mobile_device_by_project on mobile_device (project_id, subject) where state = 'active';
create index mobile_device_by_grant on mobile_device (grant_id) where state = 'active';
create index mobile_device_ended on mobile_device (ended_at) where ended_at is not null;

-- The answer to a registration, by its optional Idempotency-Key; the request as a hash that includes the token's.
create table mobile_registration (
  project_id uuid not null references project,
  subject uuid not null,
  key_hash bytea not null check (length(key_hash) = 32),
  request_hash bytea not null check (length(request_hash) = 32),
  device_id uuid not null references mobile_device on delete cascade,
  -- Whether that request made the device or found it; its retry is answered with the same status.
  created boolean not null,
  created_at timestamptz not null,
  primary key (project_id, subject, key_hash)
);
create index mobile_registration_age on mobile_registration (created_at);

-- One notification for one device, written in the transaction of the change that it tells of.
create table push_outbox (
  delivery_id uuid primary key,
  -- What happened, and the phone that hears of it.
  event_id uuid not null,
  device_id uuid not null references mobile_device on delete cascade,
  project_id uuid not null references project,
  kind text not null,
  -- An opaque id that the app may ask the service about; useless without a token.
  reference uuid,
  -- 0 low to 3 urgent.
  priority smallint not null check (priority between 0 and 3),
  collapse_key text not null,
  state text not null
    check (state in ('pending', 'leased', 'delivered', 'superseded', 'expired', 'suppressed', 'dead')),
  attempts int not null default 0,
  not_before timestamptz not null,
  expires_at timestamptz not null,
  -- Whoever holds the lease settles the row; a lease that ran out is somebody else's.
  lease_token uuid,
  lease_until timestamptz,
  last_status int,
  last_reason text,
  created_at timestamptz not null,
  settled_at timestamptz,
  -- Without it an event that is written down twice would ring twice.
  unique (event_id, device_id),
  check ((state = 'leased') = (lease_token is not null)),
  check ((lease_token is null) = (lease_until is null)),
  check ((state in ('pending', 'leased')) = (settled_at is null))
);
-- In the order of claiming, so that a claim reads as many rows as it takes, however long the queue.
create index push_outbox_due on push_outbox (priority desc, not_before) where state in ('pending', 'leased');
create index push_outbox_expiry on push_outbox (expires_at) where state in ('pending', 'leased');
create index push_outbox_by_device on push_outbox (device_id, collapse_key) where state = 'pending';
create index push_outbox_settled on push_outbox (settled_at) where settled_at is not null;

-- What a provider told all of its senders: nothing is sent to it before `paused_until`, and no attempt is counted.
create table push_provider_state (
  provider text not null,
  environment text not null,
  paused_until timestamptz,
  reason text,
  failures int not null default 0,
  primary key (provider, environment)
);
