/**
 * Fills a database with identities and everything that they leave behind. Nothing is due for any sweep within six hours,
 * and everything is 90 days later.
 *
 * Ids sort by time, as the service's own do. One project has all identities, which is the worst case for its lists;
 * devices are spread over many projects, because a project may have 50 at most.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { statementsOf } from "../../../src/platform/database/Migrations.ts"

/** The project of the identities. */
export const bigProject = "0f000000-0000-7000-8000-000000000001"

/** How many there are of what does not follow from the number of identities. */
interface Sizes {
  readonly projects: number
  readonly audit: number
  /** Entries of memory, in the one project. */
  readonly entries: number
}

/** `identities` is a multiple of 500. */
export const fill = Effect.fnUntraced(function* (
  identities: number,
  sizes: Sizes = { projects: identities / 500, audit: 2 * identities, entries: identities / 10 }
) {
  const sql = yield* SqlClient.SqlClient
  const statements = `
    -- Foreign keys hold by construction; checking twelve million of them takes longer than the inserts.
    set local session_replication_role = replica;
    set local synchronous_commit = off;
    create function pg_temp.id(kind int, i bigint) returns uuid language sql immutable as $$
      select (lpad(to_hex(i), 12, '0') || '70008' || lpad(to_hex(kind), 15, '0'))::uuid $$;
    create function pg_temp.ago(i bigint, extra interval default '0') returns timestamptz language sql stable as $$
      select date_trunc('milliseconds', now() - interval '9 days' + (i::float8 / $n) * interval '6 days' + extra) $$;

    insert into project (project_id, name, created_at)
    select '${bigProject}', 'The largest', now() - interval '10 days' union all
    select pg_temp.id(1, i), 'Project ' || i, now() - interval '10 days' from generate_series(1, $projects) i;

    insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
    select project_id, 1000 + row_number() over (), 1000, 10, 10 from project;

    insert into approved_account_reference (project_id, reference, approved_at)
    select '${bigProject}', 'github:' || i, now() - interval '9 days' from generate_series(1, $n / 100) i;

    insert into project_token (token_id, token_hash, project_id, role, scopes, created_at, expires_at)
    select pg_temp.id(2, i), sha256(('project token ' || i)::bytea), '${bigProject}', 'contributor', '{memory:read}',
           pg_temp.ago(i), case when i % 5 = 0 then now() + interval '60 days' end from generate_series(1, $n / 100) i;

    insert into bridge_enrollment_credential (
      credential_id, credential_hash, project_id, account_references, created_at, expires_at, claimed_at,
      claimed_bridge_id, claimed_device_id, claimed_fingerprint, challenge_expires_at)
    select pg_temp.id(3, i), sha256(('credential ' || i)::bytea), '${bigProject}', '{github:1}', pg_temp.ago(i),
           pg_temp.ago(i, '1 hour'), pg_temp.ago(i), 'bridge-' || i, 'device-1', 'sha256:' || repeat('0', 64),
           pg_temp.ago(i, '10 minutes') from generate_series(1, $n) i;

    insert into bridge_identity (
      identity_id, project_id, bridge_id, status, device_id, display_name, public_key_fingerprint,
      account_references, challenge_expires_at, created_at, enrolled_at)
    select pg_temp.id(4, i), '${bigProject}', 'bridge-' || i, case when i % 50 = 0 then 'pending' else 'active' end,
           'device-1', 'A Bridge', 'sha256:' || repeat('0', 64), '{github:1}',
           case when i % 50 = 0 then now() + interval '12 hours' end, pg_temp.ago(i),
           case when i % 50 > 0 then pg_temp.ago(i) end from generate_series(1, $n) i;

    -- Two ended tokens, the active one, and for every hundredth Bridge the successor of a pending rotation.
    insert into bridge_token (
      token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at, expires_at, ended_at, end_reason)
    select pg_temp.id(5 + k, i), pg_temp.id(4, i), sha256((i || ' token ' || k)::bytea),
           (array['revoked', 'revoked', 'active', 'pending'])[k + 1],
           case when k = 3 or (k = 2 and i % 10 = 1) then sha256(i::text::bytea) end, 'k',
           case when k = 2 and i % 10 = 1 then now() else pg_temp.ago(i, k * interval '16 hours') end, now() + interval '12 hours' + (i::float8 / $n) * interval '20 hours',
           case when k < 2 then pg_temp.ago(i, (k + 1) * interval '16 hours') end, case when k < 2 then 'rotated' end
      from generate_series(1, $n) i
     cross join generate_series(0, 3) k
     where i % 50 > 0 and (k < 3 or i % 100 = 1);

    insert into bridge_access_token (
      token_id, token_hash, identity_id, role, public_key_fingerprint, scopes, resource, instance_id, created_at,
      expires_at)
    select pg_temp.id(31, i), sha256(('bridge access ' || i)::bytea), pg_temp.id(4, i), 'reader',
           'sha256:' || repeat('0', 64), '{memory:read}', 'http://127.0.0.1:8787/mcp', 'tests', now(),
           now() + interval '12 hours'
      from generate_series(1, $n) i where i % 50 > 0;

    insert into enrollment_challenge (
      challenge_id, credential_id, identity_id, device_id, display_name, public_key_fingerprint,
      idempotency_key_hash, request_hash, nonce_hash, derivation_salt, key_id, created_at, expires_at, consumed_at,
      proof_key_hash, proof_request_hash, token_id)
    select pg_temp.id(9, i), pg_temp.id(3, i), pg_temp.id(4, i), 'device-1', 'A Bridge', 'f', sha256(i::text::bytea),
           sha256('r'), sha256('n'), sha256('s'), 'k', pg_temp.ago(i), pg_temp.ago(i, '10 minutes'),
           case when i % 50 > 0 then pg_temp.ago(i) end, case when i % 50 > 0 then sha256(i::text::bytea) end,
           case when i % 50 > 0 then sha256('r') end, case when i % 50 > 0 then pg_temp.id(5, i) end
      from generate_series(1, $n) i;

    insert into bridge_rotation (
      rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
      confirmation_expires_at, prepare_key_hash, end_key_hash, ended_at)
    select pg_temp.id(10 + k, i), pg_temp.id(4, i), pg_temp.id(5 + k, i), pg_temp.id(6 + k, i),
           case when k < 2 then 'confirmed' else 'pending' end, pg_temp.ago(i, (k + 1) * interval '16 hours'),
           '127.0.0.1', now() + interval '12 hours', sha256((i || ' p ' || k)::bytea),
           case when k < 2 then sha256((i || ' e ' || k)::bytea) end,
           case when k < 2 then pg_temp.ago(i, (k + 1) * interval '16 hours') end
      from generate_series(1, $n) i
     cross join generate_series(0, 2) k
     where i % 50 > 0 and (k < 2 or i % 100 = 1);
    update bridge_identity i set pending_rotation_id = r.rotation_id
      from bridge_rotation r where r.identity_id = i.identity_id and r.state = 'pending';

    insert into bridge_key_rotation (
      key_rotation_id, identity_id, public_key_fingerprint, old_fingerprint, nonce_hash, derivation_salt, key_id,
      created_at, confirmation_expires_at, prepare_key_hash)
    select pg_temp.id(31, i), pg_temp.id(4, i), 'sha256:' || repeat('1', 64), 'sha256:' || repeat('0', 64),
           sha256('n'), sha256('s'), 'k', now() - interval '9 days', now() + interval '12 hours', sha256(i::text::bytea)
      from generate_series(1, $n) i where i % 100 = 2;
    update bridge_identity i set pending_key_rotation_id = k.key_rotation_id, key_rotation_until = confirmation_expires_at
      from bridge_key_rotation k where k.identity_id = i.identity_id;

    insert into oauth_client (client_id, kind, name, redirect_uris, grant_types, scopes, created_at)
    select 'sci_' || lpad(i::text, 49, '0'), case when i % 2 = 0 then 'dynamic' else 'operator' end, 'Client ' || i,
           '{http://127.0.0.1/callback}', '{authorization_code,refresh_token}', '{memory:read}', pg_temp.ago(i)
      from generate_series(1, $n / 50) i;

    insert into oauth_grant (
      grant_id, client_id, project_id, project_token_id, scopes, resource, instance_id, redirect_uri, created_at,
      activated_at, expires_at)
    select pg_temp.id(13, i), 'sci_' || lpad((i % ($n / 100) + 1)::text, 49, '0'), '${bigProject}',
           pg_temp.id(2, i % ($n / 100) + 1), '{memory:read}', 'http://127.0.0.1:8787/mcp', 'i',
           'http://127.0.0.1/callback', pg_temp.ago(i), pg_temp.ago(i), now() + interval '20 days'
      from generate_series(1, $n / 10) i;
    insert into oauth_request (
      request_id, browser_hash, client_id, client, redirect_uri, scopes, code_challenge, created_at, expires_at,
      project_token_id, decided_at, grant_id)
    select pg_temp.id(14, i), sha256(i::text::bytea), 'sci_' || lpad((i % ($n / 100) + 1)::text, 49, '0'), '{}',
           'http://127.0.0.1/callback', '{memory:read}', repeat('c', 43), now(), now() + interval '12 hours',
           pg_temp.id(2, i % ($n / 100) + 1), now(), pg_temp.id(13, i) from generate_series(1, $n / 10) i;
    insert into oauth_code (code_hash, grant_id, code_challenge, created_at, expires_at, used_at)
    select sha256(('code ' || i)::bytea), pg_temp.id(13, i), 'c', pg_temp.ago(i), pg_temp.ago(i), pg_temp.ago(i)
      from generate_series(1, $n / 10) i;
    insert into oauth_access_token (token_id, token_hash, grant_id, scopes, created_at, expires_at)
    select pg_temp.id(15 + k, i), sha256(('access ' || k || ' ' || i)::bytea), pg_temp.id(13, i), '{memory:read}',
           pg_temp.ago(i), greatest(pg_temp.ago(i), now() - interval '20 hours') + (k + 1) * interval '1 hour'
      from generate_series(1, $n / 10) i cross join generate_series(0, 2) k;
    insert into oauth_refresh_token (
      token_hash, grant_id, generation, created_at, expires_at, used_at, successor_salt)
    select sha256(('refresh ' || k || ' ' || i)::bytea), pg_temp.id(13, i), k, pg_temp.ago(i),
           now() + interval '20 days',
           case when k = 0 then pg_temp.ago(i) when k = 1 then now() + interval '12 hours' end,
           case when k = 1 then sha256('salt') end
      from generate_series(1, $n / 10) i cross join generate_series(0, 2) k;

    insert into console_session (
      session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at, last_used_at, expires_at)
    select pg_temp.id(23, i), sha256(('session ' || i)::bytea), pg_temp.id(2, i % ($n / 100) + 1), '${bigProject}',
           'project_token:' || i, 'fill', pg_temp.ago(i), now(), now() + interval '5 days'
      from generate_series(1, $n / 50) i;
    insert into bridge_dpop_proof (proof_hash, forget_at)
    select sha256(('proof ' || i)::bytea), now() + interval '12 hours' from generate_series(1, $n / 50) i;

    insert into operator_token (token_id, token_hash, label, scopes, created_at, expires_at)
    select pg_temp.id(30, i), sha256(('operator token ' || i)::bytea), 'Ada', '{operator:read}', now(),
           now() + interval '20 days' from generate_series(1, $n / 50) i;

    insert into person_key (
      person_key_id, credential_id, public_key, sign_count, label, project_token_id, project_id, created_at, removed_at,
      expires_at)
    select pg_temp.id(32, i), sha256(('key ' || i)::bytea), sha256('public'), 0, 'Laptop',
           pg_temp.id(2, i % ($n / 100) + 1), '${bigProject}', pg_temp.ago(i), case when i % 3 = 0 then now() end,
           case when i % 3 = 1 then now() + interval '20 days' end
      from generate_series(1, $n / 50) i;
    insert into person_key_challenge (challenge_hash, browser_hash, asked_by, created_at, expires_at)
    select sha256(('challenge ' || i)::bytea), sha256('browser'), 'network ' || i, now(), now() + interval '12 hours'
      from generate_series(1, $n / 50) i;

    insert into console_link (code_hash, actor, created_at, expires_at)
    select sha256(('link ' || i)::bytea), 'operator', now(), now() + interval '12 hours'
      from generate_series(1, $n / 50) i;

    insert into mobile_device (
      device_id, project_id, subject, client_id, grant_id, provider, environment, topic, token_key_id, token_sealed,
      token_lookup, token_updated_at, state, ended_at, created_at, last_seen_at, preferences)
    select pg_temp.id(18, i), pg_temp.id(1, i % ($n / 500) + 1), pg_temp.id(2, i % ($n / 100) + 1),
           'sci_' || lpad((i % ($n / 100) + 1)::text, 49, '0'), pg_temp.id(13, i), 'apns', 'production', 'app',
           case when i % 10 > 0 then 'k' end, case when i % 10 > 0 then sha256('sealed') end,
           case when i % 10 > 0 then sha256(('lookup ' || i)::bytea) end, pg_temp.ago(i),
           case when i % 10 > 0 then 'active' else 'revoked' end, case when i % 10 = 0 then pg_temp.ago(i) end,
           pg_temp.ago(i), pg_temp.ago(i), '{}' from generate_series(1, $n / 10) i;
    insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at)
    values (pg_temp.id(19, 1), decode(repeat('04', 65), 'hex'), sha256('salt'), 'k', now());
    insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at, replaced_at)
    values (pg_temp.id(29, 1), decode(repeat('05', 65), 'hex'), sha256('salt'), 'k', now() - interval '9 days', now() - interval '3 days');
    insert into mobile_device (
      device_id, project_id, subject, provider, environment, topic, web_push_key_id, token_key_id, token_sealed,
      token_lookup, token_updated_at, state, created_at, last_seen_at, preferences)
    select pg_temp.id(20, i), pg_temp.id(1, i % ($n / 500) + 1), pg_temp.id(2, i % ($n / 100) + 1), 'webpush', 'web',
           'push.example', pg_temp.id(19, 1), 'k', sha256('sealed'), sha256(('browser ' || i)::bytea), pg_temp.ago(i),
           'active', pg_temp.ago(i), pg_temp.ago(i), '{}' from generate_series(1, $n / 50) i;
    insert into mobile_device (
      device_id, project_id, provider, environment, topic, token_key_id, token_sealed, token_lookup, token_updated_at,
      state, created_at, last_seen_at, preferences)
    select pg_temp.id(26, i), '${bigProject}', 'webhook', 'channel', 'hooks.example.com', 'k', sha256('sealed'),
           sha256(('channel ' || i)::bytea), pg_temp.ago(i), 'active', pg_temp.ago(i), pg_temp.ago(i), '{}'
      from generate_series(1, 10) i;
    insert into mobile_registration (
      project_id, subject, key_hash, request_hash, device_id, created, created_at)
    select pg_temp.id(1, i % ($n / 500) + 1), pg_temp.id(2, i % ($n / 100) + 1), sha256(i::text::bytea),
           sha256('r'), pg_temp.id(18, i), true, pg_temp.ago(i) from generate_series(1, $n / 10) i;
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before, expires_at,
      created_at, settled_at)
    select pg_temp.id(19, i), pg_temp.id(20, i), pg_temp.id(18, i % ($n / 10) + 1),
           pg_temp.id(1, i % ($n / 500) + 1), 'task.blocked', 1, 'k' || i,
           case when i % 100 = 1 then 'pending' when i % 100 = 2 then 'dead' else 'delivered' end,
           case when i % 100 = 1 then now() + interval '6 hours' else pg_temp.ago(i) end, now() + interval '12 hours',
           pg_temp.ago(i), case when i % 100 <> 1 then pg_temp.ago(i) end from generate_series(1, $n / 2) i;

    insert into idempotency_record (project_id, tool, idempotency_key, request_hash, created_at)
    select '${bigProject}', 'memory_add', 'key-' || i, sha256('r'), now() - interval '1 day' * (i::float8 / $n)
      from generate_series(1, $n / 2) i;

    insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
    select '${bigProject}', pg_temp.id(23, i), 'note', 'Entry ' || i, 'Released on 2026-05-08.', '{}', 'a', 'contributor',
           pg_temp.ago((i::float8 * $n / $entries)::bigint) from generate_series(1, $entries) i;
    insert into task (project_id, id, title, body, status, priority, tags, version, created_by, updated_by, created_at, updated_at)
    select '${bigProject}', pg_temp.id(24, i), 'Task ' || i, '', 'open', 2, '{}', 1, 'a', 'a', pg_temp.ago(i), pg_temp.ago(i)
      from generate_series(1, $n / 10) i;
    insert into memory_reindex (project_id, due_at) values ('${bigProject}', now() + interval '12 hours');

    insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
    select repeat('a', 40), sha256('x'), 1, 1, 'x';
    insert into pinned_document (
      project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
    select '${bigProject}', pg_temp.id(21, i), 'acme/shop', repeat('c', 40), 'docs/' || i, '100644', repeat('a', 40),
           'Document ' || i, i % 100 = 0, pg_temp.ago(i) from generate_series(1, $n / 100) i;

    insert into audit_event (
      event_id, at, project_id, actor, action, outcome, code, subject, address, user_agent)
    select pg_temp.id(22, i), now() - interval '9 days' + (i / $audit.0) * interval '9 days', '${bigProject}',
           'bridge:bridge-' || i, 'bridge.rotation_prepared', case when i % 100 = 0 then 'refused' else 'done' end,
           case when i % 100 = 0 then 'bridge_token_invalid' end, '{"bridge_id": "b"}', '127.0.0.1', 'fill'
      from generate_series(1, $audit) i;
    insert into audit_refusal_count (refusal_key, event_id, at)
    select i::text, pg_temp.id(22, i), now() - interval '9 days' + (i / $audit.0) * interval '9 days'
      from generate_series(100, $audit, 100) i`
  yield* sql.withTransaction(
    Effect.forEach(
      statementsOf(
        statements.replaceAll(/\$(n|projects|audit|entries)\b/g, (_, name: "n" | keyof Sizes) =>
          String(name === "n" ? identities : sizes[name])
        )
      ),
      (statement) => sql.unsafe(statement).unprepared
    )
  )
  // Also for the visibility map, which autovacuum would write later.
  yield* sql`vacuum analyze`.unprepared
})
