-- A static bearer of a project (spec 5): opens /mcp for internal commands, and names project and role on the consent page.
-- The secret itself is only in the operator's file.
create table project_token (
  token_id uuid primary key,
  token_hash bytea not null unique check (length(token_hash) = 32),
  project_id uuid not null references project,
  role text not null check (role in ('reader', 'contributor')),
  -- Expanded: a write scope never stands without the read scope of the same noun.
  scopes text[] not null check (cardinality(scopes) > 0),
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  -- To the minute: a write per request would cost more than the answer.
  last_used_at timestamptz
);
create index project_token_by_project on project_token (project_id, created_at);
