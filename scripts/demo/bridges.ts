/** Bridges, from the operator's first command to the last refusal (spec 3, 4.1 to 4.7). */
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expected, type Scene, type Stage } from "./Stage.ts"

/** What the scenes hand on. */
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

/** The refusal that the scene is about. */
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
    title: "A Bridge trades its one-time credential for a token: challenge, then proof",
    play: (stage) => enroll(stage, "laptop")
  },
  {
    title: "The token does normal work",
    play: ({ bridge }) => bridge("laptop", (laptop) => laptop.status)
  },
  {
    title: "Rotation, and the answer to confirm is lost: the Bridge repeats it with the same key",
    play: ({ bridge }) => bridge("laptop", (laptop) => laptop.rotate, { lose: "/rotate/confirm" })
  },
  {
    title: "Rotation, and the Bridge is killed before it confirms: started again, it takes up where it was",
    play: ({ bridge }) =>
      Effect.andThen(
        bridge("laptop", (laptop) => laptop.rotate, { kill: "/rotate/confirm" }),
        bridge("laptop", (laptop) => laptop.rotate)
      )
  },
  {
    title: "A pending successor is given up: the token stays what it was",
    play: ({ bridge }) =>
      Effect.andThen(
        bridge("laptop", (laptop) => laptop.rotate, { kill: "/rotate/confirm" }),
        bridge("laptop", (laptop) => Effect.andThen(laptop.abort, laptop.status))
      )
  },
  {
    title: "The Bridge revokes its token; it opens nothing any more",
    play: Effect.fnUntraced(function* ({ ask, bridge }) {
      const token = yield* bridge("laptop", (laptop) => laptop.token)
      yield* bridge("laptop", (laptop) => laptop.revoke)
      yield* expected("bridge_token_revoked", yield* ask("GET", "/bridge/v1/tokens/self", token!))
    })
  },
  {
    title: "Emergency revocation: another Bridge is refused at once, in the middle of a rotation too",
    play: Effect.fnUntraced(function* (stage) {
      yield* enroll(stage, "stolen")
      yield* stage.bridge("stolen", (stolen) => stolen.rotate, { kill: "/rotate/confirm" })
      yield* stage.admin("revoke-bridge", "--project", played.project_id, "--bridge", "stolen")
      yield* stage.bridge("stolen", (stolen) => refused("bridge_revoked", stolen.rotate))
      yield* stage.bridge("stolen", (stolen) => refused("bridge_revoked", stolen.status))
    })
  }
]
