-- What each sweep and each list looks for, so that neither reads a whole table however many Bridges there are.

-- Deleting a rotation, a token, an identity or a device checks the rows that may refer to it.
create index bridge_rotation_by_predecessor on bridge_rotation (predecessor_id);
create index enrollment_challenge_by_identity on enrollment_challenge (identity_id);
create index mobile_registration_by_device on mobile_registration (device_id);
-- The pending rotation is found by its identity: an index on pending_rotation_id would change twice with every rotation.
alter table bridge_rotation add unique (identity_id, rotation_id);
alter table bridge_identity drop constraint bridge_identity_pending_rotation_id_fkey;
alter table bridge_identity add foreign key (identity_id, pending_rotation_id)
  references bridge_rotation (identity_id, rotation_id);

-- What is due.
create index bridge_rotation_ended on bridge_rotation (ended_at) where ended_at is not null;
create index bridge_token_ended on bridge_token (ended_at) where ended_at is not null;
create index enrollment_challenge_unused on enrollment_challenge (expires_at) where token_id is null;
create index bridge_enrollment_credential_by_expiry on bridge_enrollment_credential (expires_at);
create index bridge_identity_reserved on bridge_identity (challenge_expires_at) where status = 'pending';
create index oauth_grant_revoked on oauth_grant (revoked_at) where revoked_at is not null;
create index oauth_grant_unused on oauth_grant (created_at) where activated_at is null;
create index oauth_refresh_token_used on oauth_refresh_token (used_at) where used_at is not null;

-- The devices of a sign-in that has ended are ended once; without the mark every sweep would look at every device.
alter table oauth_grant add column devices_ended boolean not null default false;
create index oauth_grant_with_devices on oauth_grant (least(expires_at, revoked_at)) where not devices_ended;

-- When a sweep last saw the client with a grant: clients in use are looked at once in 30 days, not in every sweep.
alter table oauth_client add column in_use_at timestamptz;
create index oauth_client_due on oauth_client (coalesce(in_use_at, created_at))
 where kind = 'dynamic' or (kind = 'document' and disabled_at is null);
drop index oauth_client_idle;

-- Lists page by id, which sorts by time.
create index bridge_enrollment_credential_in_order on bridge_enrollment_credential (project_id, credential_id);
create index project_token_in_order on project_token (project_id, token_id);
create index oauth_grant_in_order on oauth_grant (project_id, grant_id);
create index mobile_device_in_order on mobile_device (project_id, device_id);
drop index bridge_enrollment_credential_by_project;
drop index project_token_by_project;
drop index oauth_grant_by_project;

-- What `service-admin status` counts.
create index bridge_identity_by_status on bridge_identity (status);
create index audit_event_refused on audit_event (at) where outcome = 'refused';
