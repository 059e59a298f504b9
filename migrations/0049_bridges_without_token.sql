-- Since when an active Bridge has had no token; null while it has one. Without it the lists that begin with these Bridges
-- would compare every Bridge with every token.
alter table bridge_identity add column without_token_since timestamptz;
update bridge_identity i
   set without_token_since = coalesce((select max(ended_at) from bridge_token t where t.identity_id = i.identity_id),
                                      i.enrolled_at)
 where status = 'active'
   and not exists (select from bridge_token t where t.identity_id = i.identity_id and t.state = 'active');
create index bridge_identity_without_token on bridge_identity (project_id, bridge_id)
 where without_token_since is not null;
-- Otherwise PostgreSQL takes every Bridge to be without a token, and walks other indexes to find the first ones.
analyze bridge_identity (without_token_since);
-- The few that are not active, in the order of the lists.
create index bridge_identity_not_active on bridge_identity (project_id, status, bridge_id) where status <> 'active';

-- A trigger, so that replicas of the release before keep it too. Whatever changes a token has locked its identity. A
-- rotation does not get here: its predecessor ends when its successor begins.
create function note_bridge_without_token() returns trigger language plpgsql as $$
begin
  if new.state = 'active' then
    update bridge_identity
       set without_token_since = null
     where identity_id = new.identity_id
       and without_token_since is not null;
  else
    -- A proof of re-enrollment ends one token and begins another.
    update bridge_identity
       set without_token_since = new.ended_at
     where identity_id = new.identity_id
       and not exists (select from bridge_token t where t.identity_id = new.identity_id and t.state = 'active');
  end if;
  return null;
end $$;
create trigger bridge_token_begins after insert on bridge_token for each row
  when (new.state = 'active') execute function note_bridge_without_token();
create trigger bridge_token_ends after update of state on bridge_token for each row
  when (old.state = 'active' and new.end_reason <> 'rotated') execute function note_bridge_without_token();
