-- What waits for one device, in the order in which it is kept: a new notification supersedes what is beyond the first 300.
create index push_outbox_waiting on push_outbox (device_id, priority desc, expires_at desc) where state = 'pending';
