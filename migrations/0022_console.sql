-- A project token can open the console, unless it was made for agents only. The label tells people which one it is.
alter table project_token
  add column label text check (length(label) between 1 and 80),
  add column opens_console boolean not null default true;

-- A browser that signed in to the console, with a project token or as operator. The cookie is stored as a hash only.
create table console_session (
  session_id uuid primary key,
  secret_hash bytea not null unique check (length(secret_hash) = 32),
  -- The token and project that it stands for; both null for an operator's session, which sees every project.
  project_token_id uuid references project_token,
  project_id uuid references project,
  -- Who opened it, as audit rows name them.
  actor text not null,
  user_agent text not null,
  created_at timestamptz not null,
  -- To the minute: a write per page would cost more than the page.
  last_used_at timestamptz not null,
  -- When the visit before this one ended; null on the first. The first page shows what has changed since.
  last_visit_at timestamptz,
  expires_at timestamptz not null check (expires_at > created_at),
  ended_at timestamptz,
  -- A session of a token without its project could be shown another one's pages.
  check ((project_token_id is null) = (project_id is null))
);
create index console_session_of_project on console_session (project_id, session_id);
create index console_session_of_token on console_session (project_token_id, last_used_at);
create index console_session_of_actor on console_session (actor, last_used_at) where project_token_id is null;
create index console_session_by_expiry on console_session (expires_at);

-- The one-time link of open-console, until it expires. Using it sets `used_at`, so that it opens one session.
create table console_link (
  code_hash bytea primary key check (length(code_hash) = 32),
  -- The project whose page opens first; null for the list of projects.
  project_id uuid references project,
  actor text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz
);
create index console_link_by_expiry on console_link (expires_at);
