-- What happened since a time, and the receipts of one worker, without reading everything else.
create index task_note_recent on task_note (project_id, created_at desc, id desc);
create index receipt_of_worker on receipt (project_id, worker, created_at desc, id desc);
