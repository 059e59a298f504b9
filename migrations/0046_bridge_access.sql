-- Access of a Bridge to its project's memory and tasks (decisions.md, Access of Bridges): off unless an operator grants a
-- role. With its key the Bridge then gets access tokens, without anything pasted.
alter table bridge_identity add column access_role text check (access_role in ('reader', 'contributor'));
alter table bridge_identity add column access_granted_at timestamptz;
alter table bridge_identity
  add constraint access_has_time check ((access_role is null) = (access_granted_at is null));

-- An access token of a Bridge. It lives for ten minutes at most, and only while its Bridge has the role and the key that
-- it was issued for.
create table bridge_access_token (
  token_id uuid primary key,
  token_hash bytea not null unique check (length(token_hash) = 32),
  identity_id uuid not null references bridge_identity,
  role text not null check (role in ('reader', 'contributor')),
  public_key_fingerprint text not null,
  scopes text[] not null check (cardinality(scopes) > 0),
  resource text not null,
  instance_id text not null,
  -- The key that it is bound to; null if it works without a proof.
  dpop_jkt bytea check (length(dpop_jkt) = 32),
  created_at timestamptz not null,
  expires_at timestamptz not null
);
-- For the foreign key and the deletion of a project.
create index bridge_access_token_by_identity on bridge_access_token (identity_id);
create index bridge_access_token_by_expiry on bridge_access_token (expires_at);

-- The table bridge_dpop_proof also remembers the assertions by which Bridges asked for these tokens.
