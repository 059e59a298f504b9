/**
 * Takes backups while Bridges rotate and agents write, and restores each into another database.
 *
 * A backup holds everything that was acknowledged before it began and nothing that was sent after it ended. The invariants
 * hold, working tokens work, and revoked ones stay revoked.
 */
import { Context, Effect } from "effect"
import { copyFileSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { ProjectTokens } from "../../../../src/signin/access/ProjectTokens.ts"
import { Bridges } from "../../../../src/bridges/identity/Bridges.ts"
import { makeToken } from "../../../support/agents/Agent.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import type { Answer } from "../../../support/network/Http.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { admin, beside, chaos, draw, ledger, scratch, server, size } from "../harness.ts"
import { makeLoad } from "../parts/Load.ts"

const backups = size(4, 1)
let rows = 0
let presentations = 0

chaos(
  "backup",
  () => ({ rows }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const one = yield* server(folder)
    const on = yield* beside(folder, one)
    const notes = yield* ledger(folder)
    const load = yield* makeLoad(on, notes, { bridges: 8, agents: 8 })
    const violations: Array<string> = []
    const { project_id } = load

    /** Presents a bearer token to the endpoint that accepts its kind. */
    type Presentation = (at: { readonly url: string }) => Effect.Effect<Answer>
    const asBridge =
      (token: string): Presentation =>
      (at) =>
        tokens(at).self(token)
    const asAgent =
      (token: string): Presentation =>
      (at) =>
        new Agent({ url: at.url, token, project_id, write_context: undefined as never }).post("tools/list")
    const enrolled = Effect.gen(function* () {
      const bridge = yield* Bridge.make(on, { project_id })
      return { bridge, token: yield* bridge.enroll(one) }
    })
    const revoking = Effect.gen(function* () {
      const [byOperator, byItself] = [yield* enrolled, yield* enrolled]
      const { token, token_id } = yield* makeToken(on, { project_id })
      yield* Context.get(on.services, Bridges).revoke(project_id, byOperator.bridge.bridge_id)
      yield* tokens(one).revoke(byItself.token)
      yield* Context.get(on.services, ProjectTokens).revoke(token_id)
      return [asBridge(byOperator.token), asBridge(byItself.token), asAgent(token)]
    }).pipe(Effect.orDie)
    const working = [
      asBridge((yield* Effect.orDie(enrolled)).token),
      asAgent((yield* makeToken(on, { project_id })).token)
    ]
    const revoked: Array<Presentation> = []

    const taken = yield* load.during(
      Effect.forEach(
        Array.from({ length: backups }, (_, n) => join(folder, `backup-${n}`)),
        (file) =>
          Effect.gen(function* () {
            yield* Effect.sleep(500 + draw() * 500)
            revoked.push(...(yield* revoking))
            const acks = notes.noted("ack")
            yield* admin(folder, "backup-database", "--out", file)
            const meant = new Set(notes.noted("intent"))
            // Something must be written after the backup.
            yield* Effect.sleep("300 millis")
            return { file, acks, meant, revoked: [...revoked] }
          })
      )
    )

    yield* Effect.forEach(
      taken,
      ({ acks, file, meant, revoked }, n) =>
        Effect.gen(function* () {
          const elsewhere = join(folder, `elsewhere-${n}`)
          mkdirSync(join(elsewhere, "data"), { recursive: true, mode: 0o711 })
          copyFileSync(join(folder, "data/secrets.env"), join(elsewhere, "data/secrets.env"))
          rows += (yield* admin(elsewhere, "restore-database", "--in", file, "--without-erasures")).rows
          const restored = yield* server(elsewhere, { SERVICE_BASE_URL: one.url })
          const { sql } = yield* beside(elsewhere, one)
          yield* load.present(sql, acks, meant)
          const bridges = yield* sql`select identity_id from bridge_token where state = 'active'`.pipe(Effect.orDie)
          // The fleet, and the one Bridge that only observes.
          if (bridges.length !== load.fleet.length + 1) violations.push(`${bridges.length} Bridges hold a token`)
          for (const present of revoked) {
            presentations++
            const { status, text } = yield* present(restored)
            if (status !== 401 && status !== 403) violations.push(`a revoked token is answered ${status}: ${text}`)
          }
          for (const present of working) {
            const { status, text } = yield* present(restored)
            if (status !== 200) violations.push(`a working token is answered ${status}: ${text}`)
          }
        }).pipe(Effect.scoped),
      { concurrency: 2 }
    )
    yield* load.settled(on.sql)

    return {
      figures: {
        ...load.counts(),
        backups: taken.length,
        acknowledged_before_each: taken.map(({ acks }) => acks.length),
        restored_rows: rows,
        revoked_shown_again: presentations
      },
      violations: [...violations, ...load.violations]
    }
  })
)
