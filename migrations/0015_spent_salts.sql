-- A salt with which a spent token derives its successor is deleted as soon as no retry needs it: otherwise a used token
-- and a copy of the database would derive a live token.

-- Who used the refresh token: the hash of address and user agent, by which a replay from elsewhere is recognised. Null in
-- rows of the release before.
alter table oauth_refresh_token add column used_by bytea check (length(used_by) = 32);
create index oauth_refresh_token_salted on oauth_refresh_token (used_at) where successor_salt is not null;

-- The last replay of a refresh token from another address or user agent than the one that used it.
alter table oauth_grant add column replayed_elsewhere_at timestamptz;
create index oauth_grant_replayed_elsewhere on oauth_grant (replayed_elsewhere_at)
 where replayed_elsewhere_at is not null;

-- Null once neither a proof nor a prepare can be repeated any more.
alter table bridge_token alter column derivation_salt drop not null;
create index bridge_token_salted on bridge_token (created_at)
 where derivation_salt is not null and state <> 'pending';
