-- The grants that clients use, of a project token and of a client: lists count them, and a sign-in looks whether there are
-- too many. Those that ended, and those that no client came for, stay for 30 days, and one token can leave 14,400 a day.
create index oauth_grant_live_of_token on oauth_grant (project_token_id, expires_at)
 where revoked_at is null and activated_at is not null;
create index oauth_grant_live_of_client on oauth_grant (client_id, expires_at)
 where revoked_at is null and activated_at is not null;
