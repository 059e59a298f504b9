-- What the person who allowed a sign-in called it, so that it is recognised later. Null: the client's name says enough.
alter table oauth_grant add column label text;

-- The console session that stands for the project token of the request; null if the token itself was entered. Allowing
-- needs the session to be open still. No foreign key: a session that was purged has ended.
alter table oauth_request add column console_session_id uuid;
