-- Tokens of OAuth clients that prove a key with each request (RFC 9449). A key is named by its SHA-256 thumbprint
-- (RFC 7638). Null: the token works without a proof.

-- The key that the client announced for the code; it reaches the code when the person allows the request.
alter table oauth_request add column dpop_jkt bytea check (length(dpop_jkt) = 32);
alter table oauth_code add column dpop_jkt bytea check (length(dpop_jkt) = 32);
alter table oauth_access_token add column dpop_jkt bytea check (length(dpop_jkt) = 32);
alter table oauth_refresh_token add column dpop_jkt bytea check (length(dpop_jkt) = 32);

-- The table bridge_dpop_proof also remembers the proofs of OAuth clients from now on.
