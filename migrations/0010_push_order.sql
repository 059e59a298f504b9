-- All that one device was told about one thing. An older notification that comes back, after a retry or from the dead
-- letters, has to see a newer one whatever became of it: without that it would take the newer one's place on the phone.
-- A device that is purged finds its notifications by it, too.
create index push_outbox_by_subject on push_outbox (device_id, collapse_key, created_at);
drop index push_outbox_by_device;

-- Few among many that were delivered.
create index push_outbox_dead on push_outbox (settled_at) where state = 'dead';
