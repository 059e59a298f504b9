-- A device is any target of notifications: a phone with the app, a browser (web push), or a channel of a project (ntfy,
-- webhook). `environment` is the lane: a replica claims only lanes that it knows, so release 0.1.0 never sends the
-- targets of this one to APNs while an upgrade replaces it.
alter table mobile_device
  drop constraint mobile_device_provider_check,
  drop constraint mobile_device_environment_check,
  add constraint mobile_device_provider_and_environment check (
    case provider
      when 'apns' then environment in ('production', 'development')
      when 'webpush' then environment = 'web'
      when 'ntfy' then environment = 'channel'
      when 'webhook' then environment = 'channel'
      else false
    end),
  -- A browser that registers at the console has a project token and no sign-in; a channel has neither.
  alter column subject drop not null,
  alter column client_id drop not null,
  alter column grant_id drop not null,
  add constraint mobile_device_owner check (
    (subject is null) = (environment = 'channel')
    and (client_id is null) = (grant_id is null)
    and (grant_id is not null or environment in ('web', 'channel')));
