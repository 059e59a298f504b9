-- The last notification of each channel, which its project's lists show: a channel can get a quarter of a million in thirty
-- days. By subject (0010) they are in no order of time.
create index push_outbox_by_time on push_outbox (device_id, created_at);
