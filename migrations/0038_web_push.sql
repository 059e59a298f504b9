-- A key with which this service identifies itself to push services (RFC 8292). The private key is stored nowhere: it is
-- derived from the salt and the key for push tokens that `token_key_id` names.
create table web_push_key (
  web_push_key_id uuid primary key,
  -- The uncompressed P-256 point, with which browsers subscribe.
  public_key bytea not null unique check (length(public_key) = 65),
  salt bytea not null check (length(salt) = 32),
  token_key_id text not null,
  created_at timestamptz not null,
  -- No browser subscribes with it any more; messages for earlier subscriptions are still signed with it.
  replaced_at timestamptz
);
-- Without it, replicas that start together would hand out two keys.
create unique index one_current_web_push_key on web_push_key ((true)) where replaced_at is null;

-- A subscription accepts only messages that are signed with the key that it was made with.
alter table mobile_device
  add column web_push_key_id uuid references web_push_key,
  add constraint mobile_device_web_push_key check ((provider = 'webpush') = (web_push_key_id is not null));
create index mobile_device_by_web_push_key on mobile_device (web_push_key_id) where web_push_key_id is not null;

-- A browser that registered at the console ends with its project token. A token is marked once its browsers have ended, so
-- that none is looked at twice.
alter table project_token add column devices_ended boolean not null default false;
create index project_token_with_devices on project_token (least(expires_at, revoked_at)) where not devices_ended;
create index mobile_device_of_console on mobile_device (subject) where state = 'active' and grant_id is null;
