-- The sessions of a project that nobody ended, by their last use. Counting them at each sign-in and listing them read the
-- sessions of the last weeks otherwise, which only the sign-ins bound.
drop index console_session_of_project;
create index console_session_open on console_session (project_id, last_used_at) where ended_at is null;
