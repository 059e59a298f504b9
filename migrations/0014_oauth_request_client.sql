-- A request names its client, and no longer keeps a copy of the client's metadata. The column stays, nullable, because
-- replicas of the release before still write and read it during an upgrade. They answer the consent page of a request
-- without it with 503 and allow nothing.
alter table oauth_request alter column client drop not null;

-- Where the request came from: an IPv4 address or the /64 of an IPv6 address. Null in requests of the release before.
-- Without a limit per network, anyone could fill the table: no credential is needed to open a request.
alter table oauth_request add column network text;
create index oauth_request_open on oauth_request (network, created_at)
 where project_token_id is null and decided_at is null;
