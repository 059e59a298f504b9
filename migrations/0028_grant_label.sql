-- What the person who allowed a sign-in called it, so that it is recognised later. Null: the client's name says enough.
alter table oauth_grant add column label text;
