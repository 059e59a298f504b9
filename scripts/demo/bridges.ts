/** The life of Bridges, from enrollment to revocation (spec 3.1, 3.2, 4.1, 4.2, 4.3, 4.4, 4.5, 4.7). */
import { Effect, Redacted } from "effect"
import { chmodSync, cpSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { expected, type Scene, type Stage } from "./Stage.ts"

/** State that one scene passes to the next. */
const played: { project_id: string } = { project_id: "" }

const credential = Effect.fnUntraced(function* ({ admin, scratch }: Stage, name: string) {
  const out = join(scratch, `${name}.credential`)
  const { project_id } = played
  const flags = ["--project", project_id, "--account-reference", "github:octo", "--out", out]
  yield* admin("create-bridge-enrollment-credential", ...flags)
  return Redacted.make(readFileSync(out, "utf8").trim())
})

const enroll = Effect.fnUntraced(function* (stage: Stage, name: string) {
  const order = {
    base_url: stage.base_url,
    identity: { project_id: played.project_id, bridge_id: name, device_id: "demo", display_name: `Demo ${name}` },
    credential: yield* credential(stage, name)
  }
  yield* stage.bridge(name, (bridge) => bridge.enroll(order))
})

/** Expects the effect to fail with this code. */
const refused = <A, E extends { readonly _tag: string }, R>(code: E["_tag"], self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.flip,
    Effect.orElseSucceed(() => undefined),
    Effect.flatMap((failure) => expected(code, failure?._tag))
  )

export const bridges: ReadonlyArray<Scene> = [
  {
    title: "The operator creates a project and approves an account reference",
    play: Effect.fnUntraced(function* ({ admin }) {
      played.project_id = (yield* admin("create-project", "--name", "Demo")).project_id
      yield* admin("approve-account-reference", "--project", played.project_id, "--reference", "github:octo")
    })
  },
  {
    title: "A Bridge exchanges its one-time credential for a token: challenge, then proof",
    play: (stage) => enroll(stage, "laptop")
  },
  {
    title: "The token works",
    play: ({ bridge }) => bridge("laptop", (laptop) => laptop.status)
  },
  {
    title: "Rotation when the response to confirm is lost: the Bridge repeats it with the same key",
    play: ({ bridge }) => bridge("laptop", (laptop) => laptop.rotate, { lose: "/rotate/confirm" })
  },
  {
    title: "Rotation when the Bridge is killed before it confirms: restarted, it continues where it stopped",
    play: ({ bridge }) =>
      Effect.andThen(
        bridge("laptop", (laptop) => laptop.rotate, { kill: "/rotate/confirm" }),
        bridge("laptop", (laptop) => laptop.rotate)
      )
  },
  {
    title: "A pending successor is aborted: the current token stays active",
    play: ({ bridge }) =>
      Effect.andThen(
        bridge("laptop", (laptop) => laptop.rotate, { kill: "/rotate/confirm" }),
        bridge("laptop", (laptop) => Effect.andThen(laptop.abort, laptop.status))
      )
  },
  {
    title: "Somebody with a copy of the token, but without the key of the Bridge, is refused",
    play: Effect.fnUntraced(function* ({ ask, bridge }) {
      const token = yield* bridge("laptop", (laptop) => laptop.token)
      yield* expected("bridge_proof_of_possession_invalid", yield* ask("GET", "/bridge/v1/tokens/self", token!))
    })
  },
  {
    title: "The Bridge revokes its token; the token no longer works, not even with a copy of its folder",
    play: Effect.fnUntraced(function* ({ bridge, scratch }) {
      const copy = join(scratch, "copy")
      cpSync(join(scratch, "laptop"), copy, { recursive: true })
      chmodSync(copy, 0o700)
      yield* bridge("laptop", (laptop) => laptop.revoke)
      yield* bridge("copy", (copied) => refused("bridge_token_revoked", copied.status))
    })
  },
  {
    title: "Emergency revocation: a Bridge is refused at once, even in the middle of a rotation",
    play: Effect.fnUntraced(function* (stage) {
      yield* enroll(stage, "stolen")
      yield* stage.bridge("stolen", (stolen) => stolen.rotate, { kill: "/rotate/confirm" })
      yield* stage.admin("revoke-bridge", "--project", played.project_id, "--bridge", "stolen")
      yield* stage.bridge("stolen", (stolen) => refused("bridge_revoked", stolen.rotate))
      yield* stage.bridge("stolen", (stolen) => refused("bridge_revoked", stolen.status))
    })
  }
]
