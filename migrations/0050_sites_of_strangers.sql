-- The IPv4 address or the /48 of an IPv6 address that a request came from. A site has 65,536 networks, so a limit per
-- network alone would not limit it. Null in requests of the release before.
alter table oauth_request add column site text;

-- Requests in which nobody entered a project token, whether denied or not: denying needs no credential either.
create index oauth_request_of_network on oauth_request (network, created_at) where project_token_id is null;
create index oauth_request_of_site on oauth_request (site, created_at) where project_token_id is null;
drop index oauth_request_open;

-- The same for the challenges of browsers that are not signed in; null for those of a session.
alter table person_key_challenge add column site text;
create index person_key_challenge_of_site on person_key_challenge (site, created_at) where used_at is null;
