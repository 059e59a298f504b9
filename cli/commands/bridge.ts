/** The reference Bridge of src/client as a command: enroll once, then keep `bridge run` running. */
import { Data, Effect, Layer, Option, Redacted, References } from "effect"
import { Command, Flag } from "effect/cli"
import { readFileSync } from "node:fs"
import { hostname } from "node:os"
import { isToken } from "../../src/platform/crypto/Tokens.ts"
import { folderFailure } from "../../src/client/Errors.ts"
import { BaseUrl } from "../../src/client/bridge/State.ts"
import { frame, Json } from "../support/frames/frame.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next } from "../support/terminal/Print.ts"

const state = Flags.path("state", "Folder for this Bridge's key, tokens and journal (default: ./bridge-state)").pipe(
  Flag.withDefault("./bridge-state")
)

/** Imported when a command runs, so that --help stays fast. */
const client = Effect.promise(async () => {
  const [bridge, client, journal, run] = await Promise.all([
    import("../../src/client/bridge/Bridge.ts"),
    import("../../src/client/bridge/Client.ts"),
    import("../../src/client/bridge/Journal.ts"),
    import("../../src/client/bridge/run.ts")
  ])
  return { ...bridge, ...client, ...journal, waitForFolder: run.waitForFolder }
})

export type Bridge = import("../../src/client/bridge/Bridge.ts").Bridge["Service"]

/** Runs `work` with the folder locked for this process. */
const owning = <A, E>(folder: string, work: (bridge: Bridge) => Effect.Effect<A, E>) =>
  Effect.flatMap(client, ({ Bridge }) =>
    Effect.provide(
      Effect.flatMap(Bridge, (bridge) => work(bridge)),
      Bridge.layerFolder(folder)
    )
  )

/** Runs `work` without the lock, reading the folder only: `bridge run` may hold it. */
export const reading = <A, E>(folder: string, work: (bridge: Bridge) => Effect.Effect<A, E>) =>
  Effect.flatMap(client, ({ Bridge, Client, Journal }) =>
    Effect.provide(
      Effect.flatMap(Bridge, (bridge) => work(bridge)),
      Bridge.layer.pipe(Layer.provide(Client.layerFetch), Layer.provide(Journal.layerReading(folder)))
    )
  )

const credentialIn = (path: string) =>
  Effect.try({
    try: () => {
      const credential = readFileSync(path, "utf8").trim()
      if (!isToken("sbe", credential))
        throw new Error(
          "it holds no bootstrap credential; ask the operator for the file that create-bridge-enrollment-credential wrote"
        )
      return Redacted.make(credential)
    },
    catch: (error) => folderFailure(path, error)
  })

class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

const flagOrKnown = <A>(flag: Option.Option<A>, known: A | undefined, name: string) =>
  Option.match(flag, {
    onSome: Effect.succeed,
    onNone: () =>
      known === undefined
        ? Effect.fail(new UsageError({ message: `--${name} is required for the first enrollment.` }))
        : Effect.succeed(known)
  })

const enroll = frame("enroll", {
  description:
    "Exchange a bootstrap credential for this Bridge's token. After a crash, repeat it with the same credential; the other flags are remembered",
  flags: {
    state,
    credentialFile: Flags.path("credential-file", "File with the credential, from the operator"),
    baseUrl: Flags.flag(
      "base-url",
      BaseUrl,
      "expected an origin such as https://bridge.example.com",
      "Address of the service"
    ).pipe(Flag.optional),
    project: Flags.uuid("project", "Id of the project of the credential").pipe(Flag.optional),
    bridgeId: Flags.bridgeId("bridge-id", "Name of this Bridge, unique in the project").pipe(Flag.optional),
    deviceId: Flags.label("device-id", 128, "Machine that the Bridge runs on (default: the host name)").pipe(
      Flag.optional
    ),
    displayName: Flags.label("display-name", 120, "Display name (default: the bridge_id)").pipe(Flag.optional)
  },
  run: ({ baseUrl, bridgeId, credentialFile, deviceId, displayName, project, state }) =>
    owning(state, (bridge) =>
      Effect.gen(function* () {
        const credential = yield* credentialIn(credentialFile)
        const known = yield* bridge.known
        const bridge_id = yield* flagOrKnown(bridgeId, known?.identity.bridge_id, "bridge-id")
        const enrolled = yield* bridge.enroll({
          base_url: yield* flagOrKnown(baseUrl, known?.base_url, "base-url"),
          identity: {
            project_id: yield* flagOrKnown(project, known?.identity.project_id, "project"),
            bridge_id,
            device_id: Option.getOrElse(deviceId, () => known?.identity.device_id ?? hostname()),
            display_name: Option.getOrElse(displayName, () => known?.identity.display_name ?? bridge_id)
          },
          credential
        })
        return { ...enrolled.identity, base_url: enrolled.base_url, state }
      })
    ),
  print: (enrolled) => [...facts(enrolled), next(`run --state ${enrolled.state}`, "keeps the token valid", "bridge")]
})

const status = frame("status", {
  description: "Show this Bridge as the service sees it; works while `bridge run` is running",
  flags: { state },
  run: ({ state }) => reading(state, (bridge) => bridge.status),
  print: (status) => facts(status)
})

const token = frame("token", {
  description:
    "Print a header with which an agent on this machine reaches /mcp, if the operator has granted this Bridge access; works while `bridge run` is running",
  flags: {
    state,
    mcpHeader: Flag.Boolean("mcp-header").pipe(
      Flag.withDescription(
        "Print the header Authorization; with --json as an object, as headersHelper of Claude Code wants it"
      ),
      Flag.withDefault(false)
    )
  },
  refuse: ({ mcpHeader }) =>
    mcpHeader ? undefined : "Pass --mcp-header: what is printed opens the project's memory and tasks.",
  run: ({ state }) =>
    reading(state, (bridge) =>
      Effect.map(bridge.accessToken, (token) => ({ Authorization: `Bearer ${Redacted.value(token)}` }))
    ),
  print: ({ Authorization }) => [`Authorization: ${Authorization}`]
})

const rotate = frame("rotate", {
  description: "Replace the token now, or finish a pending rotation",
  flags: { state },
  run: ({ state }) =>
    owning(state, (bridge) => bridge.rotate).pipe(
      Effect.map(({ identity, rotation, token }) => ({
        bridge_id: identity.bridge_id,
        rotation_id: rotation?.state === "confirmed" ? rotation.rotation_id : null,
        lifetime_seconds: token.lifetime_seconds
      }))
    ),
  print: (rotated) => facts(rotated)
})

const rotateKey = frame("rotate-key", {
  description: "Replace the key now, or finish a pending key rotation",
  flags: { state },
  run: ({ state }) =>
    owning(state, (bridge) => bridge.rotateKey).pipe(
      Effect.map((public_key_fingerprint) => ({ public_key_fingerprint }))
    ),
  print: (rotated) => facts(rotated)
})

const abort = frame("abort", {
  description: "Abort the pending rotation, of token or key, and keep what is in use",
  flags: { state },
  run: ({ state }) =>
    owning(state, (bridge) => bridge.abort).pipe(
      Effect.map(({ aborted, state }) => ({ bridge_id: state.identity.bridge_id, aborted }))
    ),
  print: ({ aborted, bridge_id }) => [
    aborted
      ? `Aborted; ${bridge_id} keeps its current token and key.`
      : `${bridge_id} has no pending rotation: there was none, or it is already confirmed.`
  ]
})

const revoke = frame("revoke", {
  description:
    "Revoke the token permanently; this Bridge then needs a re-enrollment credential (--reenroll) to come back",
  flags: { state },
  run: ({ state }) => owning(state, (bridge) => bridge.revoke).pipe(Effect.as({ status: "revoked" })),
  print: () => ["The token is revoked and deleted from the folder."]
})

/** The exit code after a signal, which is the normal end of `bridge run`. */
export let interrupted = 130

const keepRunning = frame("run", {
  description: "Keep the token valid: finish what was interrupted, then rotate at 60 to 80 % of each token's lifetime",
  flags: { state },
  run: ({ state }) =>
    Effect.suspend(() => {
      interrupted = 0
      return Effect.flatMap(client, ({ waitForFolder }) => waitForFolder(owning(state, (bridge) => bridge.run)))
    }).pipe(Effect.provideService(References.MinimumLogLevel, "Info")),
  print: () => []
})

export const bridge = Command.make("bridge").pipe(
  Command.withDescription(
    [
      "The reference Bridge: enrolls with a credential from the operator and keeps its token valid.",
      "Key, tokens and journal are in the --state folder, which only one process may use at a time.",
      "After a crash or a lost answer, repeat the command: it continues where it stopped.",
      "Exit codes: 0 done, 1 refused (ask the operator), 64 usage, 75 try again later, 78 bad folder or flags."
    ].join(" ")
  ),
  Command.withSubcommands([enroll, status, token, rotate, rotateKey, abort, revoke, keepRunning]),
  Command.withGlobalFlags([Json])
)
