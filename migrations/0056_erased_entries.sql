-- What refers to an entry by a foreign key, which each entry that is erased has checked: without an index, the check of one
-- entry reads all entries and all tasks of its project, and the project's writers wait meanwhile.
create index memory_entry_superseded on memory_entry (project_id, superseded_by) where superseded_by is not null;
create index task_of_answer on task (project_id, answer_entry_id) where answer_entry_id is not null;
