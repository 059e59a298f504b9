-- Tokens with which operators run commands over HTTP. Only the hash of a token is stored.
create table operator_token (
    token_id     uuid primary key,
    token_hash   bytea not null unique check (octet_length(token_hash) = 32),
    label        text not null check (length(label) between 1 and 80),
    scopes       text[] not null check (scopes <> '{}' and scopes <@ '{operator:read,operator:write}'),
    created_at   timestamptz not null,
    expires_at   timestamptz not null check (expires_at > created_at and expires_at <= created_at + interval '30 days'),
    revoked_at   timestamptz,
    last_used_at timestamptz
);
create index operator_token_expires on operator_token (expires_at);
