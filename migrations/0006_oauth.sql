-- A public OAuth client (spec 4.10, 4.13): registered by the operator, by itself (RFC 7591), or known by the https
-- address of its metadata document. A document gets its row when a person first allows it something.
create table oauth_client (
  client_id text primary key,
  kind text not null check (kind in ('operator', 'dynamic', 'document')),
  name text not null check (name <> ''),
  redirect_uris text[] not null,
  application_type text check (application_type in ('native', 'web')),
  grant_types text[] not null,
  -- The most it may ever be granted.
  scopes text[] not null,
  created_at timestamptz not null,
  disabled_at timestamptz,
  -- A client id that is no address cannot be mistaken for a document, and the other way round.
  check ((kind = 'document') = starts_with(client_id, 'https://'))
);
create index oauth_client_unused on oauth_client (created_at) where kind = 'dynamic';

-- What one person allowed one client to do in one project, on the authority of one project token. It is the lock of its
-- code and of its tokens: whoever writes to those locks this row first. It is also the family of its refresh tokens.
create table oauth_grant (
  grant_id uuid primary key,
  client_id text not null references oauth_client,
  project_id uuid not null references project,
  project_token_id uuid not null references project_token,
  scopes text[] not null check (cardinality(scopes) > 0),
  -- Audience and instance: tokens die with a changed base URL or instance id (spec 4.12, 5).
  resource text not null,
  instance_id text not null,
  redirect_uri text not null,
  created_at timestamptz not null,
  -- When the code was exchanged; a grant without is one that the client never came to fetch.
  activated_at timestamptz,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  end_reason text,
  last_used_at timestamptz,
  check ((revoked_at is null) = (end_reason is null))
);
create index oauth_grant_by_project on oauth_grant (project_id, created_at);
create index oauth_grant_by_client on oauth_grant (client_id);
create index oauth_grant_by_project_token on oauth_grant (project_token_id);
create index oauth_grant_by_end on oauth_grant (expires_at);

-- An authorization request that waits for a person at the consent page. `browser_hash` is the hash of a cookie: the
-- address of the page alone opens nothing.
create table oauth_request (
  request_id uuid primary key,
  browser_hash bytea not null check (length(browser_hash) = 32),
  client_id text not null,
  -- The client as it was when it asked: {kind, name, redirect_uris, application_type, grant_types, scopes}.
  client jsonb not null,
  redirect_uri text not null,
  state text,
  scopes text[] not null check (cardinality(scopes) > 0),
  code_challenge text not null check (length(code_challenge) = 43),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  -- Five wrong tokens end it.
  wrong_tokens int not null default 0,
  project_token_id uuid references project_token,
  decided_at timestamptz,
  -- Null after a refusal.
  grant_id uuid references oauth_grant,
  check (grant_id is null or decided_at is not null)
);
create index oauth_request_by_expiry on oauth_request (expires_at);
create index oauth_request_by_grant on oauth_request (grant_id) where grant_id is not null;

-- An authorization code. It stays after its use: a second use must be recognised.
create table oauth_code (
  code_hash bytea primary key check (length(code_hash) = 32),
  grant_id uuid not null references oauth_grant,
  code_challenge text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz
);
create index oauth_code_by_grant on oauth_code (grant_id);

create table oauth_access_token (
  token_id uuid primary key,
  token_hash bytea not null unique check (length(token_hash) = 32),
  grant_id uuid not null references oauth_grant,
  scopes text[] not null check (cardinality(scopes) > 0),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  revoked_at timestamptz
);
create index oauth_access_token_by_grant on oauth_access_token (grant_id);
create index oauth_access_token_by_expiry on oauth_access_token (expires_at);

-- One generation of a grant's refresh tokens. The successor is derived from the presented token and `successor_salt`;
-- the salt is forgotten when the successor is used, and with it the last way to answer a replay.
create table oauth_refresh_token (
  token_hash bytea primary key check (length(token_hash) = 32),
  grant_id uuid not null references oauth_grant,
  generation int not null check (generation >= 0),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  successor_salt bytea check (length(successor_salt) = 32),
  replays int not null default 0,
  -- One chain: without it two refreshes at once would each get a successor of their own.
  unique (grant_id, generation),
  check (successor_salt is null or used_at is not null)
);
