/** The reference Bridge as a command, over src/client: enroll once, then leave `bridge run` running. */
import { Data, Effect, Layer, Option, Redacted, References } from "effect"
import { Command, Flag } from "effect/cli"
import { readFileSync } from "node:fs"
import { hostname } from "node:os"
import { isToken } from "../src/platform/crypto/Tokens.ts"
import { FolderError } from "../src/client/Errors.ts"
import { BaseUrl } from "../src/client/State.ts"
import { command, Json } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts } from "./support/print.ts"
import { run } from "./support/run.ts"

const state = Flags.path("state", "Folder of this Bridge's key, tokens and journal (./bridge-state)").pipe(
  Flag.withDefault("./bridge-state")
)

/** The client is loaded when a command runs: --help does not wait for it. */
const client = Effect.promise(async () => {
  const [bridge, client, journal] = await Promise.all([
    import("../src/client/Bridge.ts"),
    import("../src/client/Client.ts"),
    import("../src/client/Journal.ts")
  ])
  return { ...bridge, ...client, ...journal }
})

type Bridge = import("../src/client/Bridge.ts").Bridge["Service"]

/** As the one process that works with the folder. */
const on = <A, E>(folder: string, work: (bridge: Bridge) => Effect.Effect<A, E>) =>
  Effect.flatMap(client, ({ Bridge }) =>
    Effect.provide(
      Effect.flatMap(Bridge, (bridge) => work(bridge)),
      Bridge.layerFolder(folder)
    )
  )

/** Beside the process that works with the folder. */
const beside = <A, E>(folder: string, work: (bridge: Bridge) => Effect.Effect<A, E>) =>
  Effect.flatMap(client, ({ Bridge, Client, Journal }) =>
    Effect.provide(
      Effect.flatMap(Bridge, (bridge) => work(bridge)),
      Bridge.layer.pipe(Layer.provide([Client.layerFetch, Journal.layerReading(folder)]))
    )
  )

const credentialIn = (path: string) =>
  Effect.try({
    try: () => {
      const credential = readFileSync(path, "utf8").trim()
      if (!isToken("sbe", credential)) throw new Error("it holds no bootstrap credential")
      return Redacted.make(credential)
    },
    catch: (error) => new FolderError({ message: `${path}: ${(error as Error).message}.` })
  })

class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

const given = <A>(flag: Option.Option<A>, known: A | undefined, name: string) =>
  Option.match(flag, {
    onSome: Effect.succeed,
    onNone: () =>
      known === undefined
        ? Effect.fail(new UsageError({ message: `--${name} is required for the first enrollment.` }))
        : Effect.succeed(known)
  })

const enroll = command("enroll", {
  description:
    "Trade a bootstrap credential for this Bridge's token. May be repeated after a crash with the same credential, and then needs no other flags",
  flags: {
    state,
    credentialFile: Flags.path("credential-file", "The file that the operator handed over"),
    baseUrl: Flags.flag(
      "base-url",
      BaseUrl,
      "expected an origin such as https://bridge.example.com",
      "Where the service is"
    ).pipe(Flag.optional),
    project: Flags.uuid("project", "Id of the project that the credential is for").pipe(Flag.optional),
    bridgeId: Flags.bridgeId("bridge-id", "Name of this Bridge, unique in the project").pipe(Flag.optional),
    deviceId: Flags.label("device-id", 128, "The machine it runs on (its host name)").pipe(Flag.optional),
    displayName: Flags.label("display-name", 120, "What people call it (the bridge_id)").pipe(Flag.optional)
  },
  run: ({ baseUrl, bridgeId, credentialFile, deviceId, displayName, project, state }) =>
    on(state, (bridge) =>
      Effect.gen(function* () {
        const credential = yield* credentialIn(credentialFile)
        const known = yield* bridge.known
        const bridge_id = yield* given(bridgeId, known?.identity.bridge_id, "bridge-id")
        const enrolled = yield* bridge.enroll({
          base_url: yield* given(baseUrl, known?.base_url, "base-url"),
          identity: {
            project_id: yield* given(project, known?.identity.project_id, "project"),
            bridge_id,
            device_id: Option.getOrElse(deviceId, () => known?.identity.device_id ?? hostname()),
            display_name: Option.getOrElse(displayName, () => known?.identity.display_name ?? bridge_id)
          },
          credential
        })
        return { ...enrolled.identity, base_url: enrolled.base_url, state }
      })
    ),
  print: (enrolled) => [...facts(enrolled), next("run", enrolled.state, "keeps the token alive")]
})

const status = command("status", {
  description: "Ask the service about this Bridge, also while `bridge run` works",
  flags: { state },
  run: ({ state }) => beside(state, (bridge) => bridge.status),
  print: (status) => facts(status)
})

const rotate = command("rotate", {
  description: "Replace the token now, or finish the rotation that was under way",
  flags: { state },
  run: ({ state }) =>
    on(state, (bridge) => bridge.rotate).pipe(
      Effect.map(({ identity, rotation, token }) => ({
        bridge_id: identity.bridge_id,
        rotation_id: rotation?.state === "confirmed" ? rotation.rotation_id : null,
        lifetime_seconds: token.lifetime_seconds
      }))
    ),
  print: (rotated) => facts(rotated)
})

const abort = command("abort", {
  description: "Give up the rotation under way and keep the token",
  flags: { state },
  run: ({ state }) =>
    on(state, (bridge) => bridge.abort).pipe(
      Effect.map(({ aborted, state }) => ({ bridge_id: state.identity.bridge_id, aborted }))
    ),
  print: ({ aborted, bridge_id }) => [
    aborted ? `${bridge_id} keeps the token it had.` : `${bridge_id} had nothing to abort, or it was confirmed already.`
  ]
})

const revoke = command("revoke", {
  description: "End the token for good; only a re-enrollment credential brings this Bridge back",
  flags: { state },
  run: ({ state }) => on(state, (bridge) => bridge.revoke).pipe(Effect.as({ status: "revoked" })),
  print: () => ["The token is revoked and forgotten."]
})

/** To be stopped is how a service ends. */
let interrupted = 130

const keep = command("run", {
  description: "Keep the token alive: take up what was under way, then rotate at 60 to 80 % of each token's life",
  flags: { state },
  run: ({ state }) =>
    Effect.suspend(() => {
      interrupted = 0
      return on(state, (bridge) => bridge.run)
    }).pipe(Effect.provideService(References.MinimumLogLevel, "Info")),
  print: () => []
})

const next = (command: string, state: string, why: string) => `Next: bridge ${command} --state ${state}   # ${why}`

Command.make("bridge").pipe(
  Command.withDescription(
    [
      "The reference Bridge: enrolls with an operator's credential and keeps its token alive.",
      "Key, tokens and journal are in the --state folder, which one process at a time works with.",
      "After a crash or a lost answer, repeat the command: it takes up where it was.",
      "Exit codes: 0 done, 1 refused (ask the operator), 64 usage, 75 try again later, 78 folder or flags."
    ].join(" ")
  ),
  Command.withSubcommands([enroll, status, rotate, abort, revoke, keep]),
  Command.withGlobalFlags([Json]),
  (root) => run(root, () => interrupted)
)
