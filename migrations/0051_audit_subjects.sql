-- The audit log by the channel, passkey or credential of an event, which audit_event_by_subject does not have, or not when
-- the event also names a Bridge, a grant or a session. That index stays as it is, because the release before reads by it.
-- Few events are in this one, so that building it reads the log but writes little.
create index audit_event_by_other_subject on audit_event (
  project_id,
  (coalesce(subject ->> 'channel_id', subject ->> 'person_key_id', subject ->> 'credential_id')),
  action, at)
 where coalesce(subject ->> 'channel_id', subject ->> 'person_key_id', subject ->> 'credential_id') is not null;
