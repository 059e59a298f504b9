/** Channels of a project: ntfy topics and webhooks that ring when something needs a person. */
import { Effect, Option, Redacted, Schema } from "effect"
import { Flag } from "effect/cli"
import { readFileSync } from "node:fs"
import { channelKinds, type ChannelKind } from "../../src/push/Channel.ts"
import { isSecret, makeSecret } from "../../src/push/channels/webhook/webhook.ts"
import { uuidHere } from "../../src/platform/crypto/Random.ts"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"
import { FileError, fileError, withSecretFiles } from "../support/files/SecretFiles.ts"

/** Whether it may be used is decided by the service. It is sealed, so a secret in it is none of `Flags.label`'s business. */
const Address = Schema.String.check(
  Schema.isMaxLength(1000),
  Schema.makeFilter((text) => URL.canParse(text), { expected: "an address" })
)
const channel = Flags.id("channel", "Id of the channel; see list-channels")
const out = Flags.path("out", "New file for the secret that signs a webhook").pipe(Flag.optional)

const createChannel = command("create-channel", {
  description: "Let a topic of ntfy or a webhook ring when a task needs a person",
  flags: {
    project: Flags.project,
    kind: Flag.Literals("kind", channelKinds).pipe(Flag.withDescription("ntfy or webhook")),
    url: Flags.flag(
      "url",
      Address,
      "expected an address such as https://ntfy.sh/topic",
      "Address of the topic or receiver"
    ),
    secretFile: Flags.path(
      "secret-file",
      "ntfy: file with the access token. webhook: file with its whsec_ secret"
    ).pipe(Flag.optional),
    titles: Flag.Boolean("titles").pipe(
      Flag.withDescription("Send the title of the task as well: text of the project then leaves the service"),
      Flag.withDefault(false)
    ),
    out
  },
  refuse: ({ kind, out, secretFile }) => {
    if (kind === "webhook" && Option.isSome(out) === Option.isSome(secretFile))
      return "A webhook needs --out FILE for a new secret, or --secret-file FILE with one."
    return kind === "ntfy" && Option.isSome(out) ? "--out is for the secret of a webhook." : undefined
  },
  run: ({ kind, out, project: project_id, secretFile, titles, url }) =>
    using(({ channels, persistently }) =>
      Effect.gen(function* () {
        const given = Option.isSome(secretFile) ? yield* readSecret(secretFile.value, kind) : undefined
        const secret = given ?? (kind === "webhook" ? makeSecret() : undefined)
        const create = persistently(channels.create({ project_id, kind, url, secret, titles }, yield* uuidHere))
        const created = yield* keeping(out, secret, create)
        return { ...created, ...Option.match(out, { onNone: () => ({}), onSome: (file) => ({ file }) }) }
      })
    ),
  print: (created) => [...facts(created), next(`test-channel --channel ${created.channel_id}`)]
})

const listChannels = list("list-channels", {
  description: "List the channels of a project, newest first; never their addresses",
  flags: { project: Flags.project },
  recorded: "channel.listed",
  after: Flags.uuid("after", ""),
  key: "channel_id",
  page: ({ channels }, { project }, page) => channels.list(project, page),
  columns: [
    "channel_id",
    "kind",
    "host",
    "titles",
    "state",
    "last_state",
    "last_status",
    "last_reason",
    "resting_until",
    "created_at"
  ],
  none: "The project has no channels.",
  next: ([first], { project }) =>
    first === undefined
      ? `create-channel --project ${project} --kind ntfy --url URL`
      : `test-channel --channel ${first.channel_id}`
})

const testChannel = command("test-channel", {
  description:
    "Send a test to a channel and show what became of it; the server must be running; exit code 1 if it failed",
  remote: "write",
  flags: { channel, id: Flags.newUuid },
  run: ({ channel, id }) => using(({ channels, persistently }) => persistently(channels.test(channel, id))),
  print: (tested) => [
    ...facts(tested),
    next(
      "list-channels --project ID",
      tested.outcome === "waiting" ? "shows whether the channel rests, and until when" : ""
    )
  ],
  ok: ({ outcome }) => outcome === "accepted"
})

const rotateChannelSecret = command("rotate-channel-secret", {
  description: "Let a second secret sign a webhook, with --out; without it, end the older one of two",
  flags: {
    channel,
    out,
    replaceNewest: Flag.Boolean("replace-newest").pipe(
      Flag.withDescription("With --out, while two secrets sign: the newer one is lost, and never reached the receiver"),
      Flag.withDefault(false)
    )
  },
  refuse: ({ out, replaceNewest }) =>
    replaceNewest && Option.isNone(out) ? "--replace-newest needs --out FILE for the secret." : undefined,
  run: ({ channel, out, replaceNewest }) =>
    using(({ channels }) => {
      const secret = Option.isSome(out) ? makeSecret() : undefined
      return keeping(out, secret, channels.rotate(channel, secret, replaceNewest ? "newest" : undefined))
    }),
  print: (rotated) => [
    ...facts(rotated),
    rotated.signs > 1
      ? next(`rotate-channel-secret --channel ${rotated.channel_id}`, "once the receiver has the new secret")
      : next(`test-channel --channel ${rotated.channel_id}`)
  ]
})

const revokeChannel = irreversible("revoke-channel", {
  description: "End a channel: its address and secret are deleted",
  remote: "write",
  flags: { channel },
  losses: ({ channel }) => using(({ losses }) => losses.device(channel)),
  run: ({ channel }) =>
    using(({ channels }) => Effect.map(channels.revoke(channel), (revoked) => ({ channel_id: channel, ...revoked }))),
  print: (revoked) => [...facts(revoked), next("list-channels --project ID")]
})

/** Writes the secret to the file, if there is one, before it is valid. */
const keeping = <A, E>(
  out: Option.Option<string>,
  secret: Redacted.Redacted<string> | undefined,
  activate: Effect.Effect<A, E>
) => (Option.isSome(out) && secret !== undefined ? withSecretFiles([{ path: out.value, secret }], activate) : activate)

const readSecret = (path: string, kind: ChannelKind) =>
  Effect.try({
    try: () => readFileSync(path, "utf8").trim(),
    catch: (error) => fileError(path, "read", error)
  }).pipe(
    Effect.filterOrFail(
      (text) => (kind === "webhook" ? isSecret(text) : /^[\x21-\x7e]{1,200}$/.test(text)),
      () =>
        new FileError({
          message:
            kind === "webhook"
              ? `${path} does not hold whsec_ and 24 to 64 bytes in base64.`
              : `${path} does not hold an access token: one word of at most 200 characters.`
        })
    ),
    Effect.map((text) => Redacted.make(text))
  )

export const channels = [createChannel, listChannels, testChannel, rotateChannelSecret, revokeChannel]
