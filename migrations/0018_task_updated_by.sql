-- Who wrote the present version of a task: its title and body may be by another credential than the one that created it.
-- Null for version 1, which `created_by` wrote, and for versions that earlier releases wrote.
alter table task add column updated_by text;
