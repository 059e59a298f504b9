-- Whether notifications to a channel (ntfy, webhook) carry the title of their task. Phones and browsers never get one.
alter table mobile_device add column titles boolean not null default false;
