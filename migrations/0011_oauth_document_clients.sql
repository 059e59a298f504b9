-- Clients that nobody allows anything any more are forgotten, those known by a document, too; one that was disabled is
-- kept: its row is what keeps it out.
create index oauth_client_idle on oauth_client (created_at)
 where kind = 'dynamic' or (kind = 'document' and disabled_at is null);
drop index oauth_client_unused;
