/** One-time bootstrap credentials with which Bridges enroll (spec 1.5, 2.2). */
import { Data, Duration, Effect, Option } from "effect"
import { type Command, Flag } from "effect/cli"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { Issued, Secret } from "../../src/bridges/enrollment/Credentials.ts"
import { command, using } from "../support/frames/command.ts"
import type { RemoteFailure } from "../support/frames/frame.ts"
import { asMinted, mintHere } from "../support/remote/minted.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next, table } from "../support/terminal/Print.ts"
import { fileWork, withSecretFiles } from "../support/files/SecretFiles.ts"

/** At once from elsewhere, so that a request stays small. */
const mostRemote = 100

const createFlags = {
  project: Flags.project,
  references: Flags.reference("account-reference").pipe(
    Flag.atLeast(1),
    Flag.withDescription("Approved account that the Bridge may name; repeatable")
  ),
  ttl: Flags.lifetime("Lifetime of the credential (default: 1h)").pipe(Flag.withDefault(Duration.hours(1))),
  reenroll: Flags.bridgeId("reenroll", "Replace the key and tokens of this enrolled Bridge").pipe(Flag.optional),
  out: Flags.path("out", "New file for the credential").pipe(Flag.optional),
  count: Flags.count("count", 1000, "Number of credentials to create; needs --out-dir").pipe(Flag.optional),
  outDir: Flags.path("out-dir", "Folder for one file <credential_id>.credential each").pipe(Flag.optional),
  minted: Flags.minted.pipe(Flag.between(0, mostRemote))
}

type CreateFlags = Command.Command.Config.Infer<typeof createFlags>

const mintSecret = Effect.map(mintHere("sbe"), ({ hash, id, secret }) => ({
  credential_id: id,
  credential: secret,
  credential_hash: hash
}))

/** Makes the secrets and writes them to files, then issues them. */
const issueToFiles = Effect.fnUntraced(function* <E, E2>(
  { count, out, outDir }: CreateFlags,
  mint: Effect.Effect<Secret, E>,
  issue: (minted: ReadonlyArray<Secret>) => Effect.Effect<ReadonlyArray<Issued>, E2>
) {
  const minted = yield* Effect.replicateEffect(
    mint,
    Option.getOrElse(count, () => 1)
  )
  if (Option.isSome(outDir))
    yield* fileWork(outDir.value, () => mkdirSync(outDir.value, { recursive: true, mode: 0o700 }))
  const folder = Option.getOrElse(outDir, () => ".")
  const path = (credential_id: string) => Option.getOrElse(out, () => join(folder, `${credential_id}.credential`))
  const issued = yield* withSecretFiles(
    minted.map(({ credential, credential_id }) => ({ path: path(credential_id), secret: credential })),
    issue(minted)
  )
  const written = issued.map((credential) => ({ ...credential, file: path(credential.credential_id) }))
  return Option.isSome(out) ? written[0]! : written
})

const createBridgeEnrollmentCredential = command("create-bridge-enrollment-credential", {
  description: "Write a one-time credential for a new Bridge to a file that only you can read",
  flags: createFlags,
  refuse: ({ count, minted, out, outDir, reenroll }) => {
    const elsewhere = minted.length > 0 && Option.isNone(out) && Option.isNone(count) && Option.isNone(outDir)
    const several = minted.length === 0 && Option.isSome(count) && Option.isSome(outDir) && Option.isNone(out)
    const one = minted.length === 0 && Option.isSome(out) && Option.isNone(count) && Option.isNone(outDir)
    if (!one && !several && !elsewhere) return "Pass --out FILE, or --count N with --out-dir DIR."
    return (several || minted.length > 1) && Option.isSome(reenroll)
      ? "--reenroll creates one credential: pass --out FILE."
      : undefined
  },
  remote: "write",
  run: (flags) =>
    using(({ credentials, persistently }) =>
      Effect.gen(function* () {
        const { minted, project, reenroll, references, ttl } = flags
        const order = {
          project_id: project,
          account_references: references,
          ttl,
          reenroll_bridge_id: Option.getOrUndefined(reenroll)
        }
        const issue = (secrets: Parameters<typeof credentials.issue>[1]) =>
          persistently(credentials.issue(order, secrets))
        const issued: Result =
          minted.length > 0
            ? yield* issue(minted.map(({ hash, id }) => ({ credential_id: id, credential_hash: hash })))
            : yield* issueToFiles(flags, credentials.mint, issue)
        if (Duration.isLessThan(ttl, Duration.minutes(1)) || Duration.isGreaterThan(ttl, Duration.days(7))) {
          yield* Effect.logWarning("Bootstrap credentials usually live between 1m and 7d; this one was created anyway.")
        }
        return issued
      })
    ),
  remotely: (flags, call): Effect.Effect<Result, RemoteFailure> =>
    Option.getOrElse(flags.count, () => 1) > mostRemote
      ? Effect.fail(new TooMany())
      : issueToFiles(flags, mintSecret, (secrets) =>
          Effect.map(
            call({
              count: undefined,
              minted: secrets.map(({ credential_hash, credential_id }) => asMinted(credential_id, credential_hash))
            }),
            (answer) => answer as ReadonlyArray<Issued>
          )
        ),
  print: (result) => {
    const written = [result].flat()
    return [
      ...table(written, ["credential_id", "project_id", "expires_at", "file"], ""),
      next(`list-bridges --project ${written[0]!.project_id}`, "once the Bridge has enrolled with the file")
    ]
  }
})

type One = Issued & { readonly file?: string }
type Result = One | ReadonlyArray<One>

class TooMany extends Data.TaggedError("TooMany") {
  override readonly message = `From elsewhere at most ${mostRemote} credentials are made at once.`
}

const creating = (project: string) =>
  `create-bridge-enrollment-credential --project ${project} --account-reference REFERENCE --out FILE`

const listBridgeEnrollmentCredentials = list("list-bridge-enrollment-credentials", {
  description: "List the bootstrap credentials of a project; the secrets exist only in their files",
  flags: { project: Flags.project, state: Flags.state(["unused", "claimed", "enrolled", "revoked", "expired"]) },
  recorded: "bridge_credential.listed",
  after: Flags.uuid("after", ""),
  key: "credential_id",
  page: ({ credentials }, { project, state }, page) => credentials.list(project, page, Option.getOrUndefined(state)),
  columns: ["credential_id", "status", "expires_at", "claimed_bridge_id", "reenroll_bridge_id", "account_references"],
  none: "The project has no bootstrap credentials.",
  next: ({ length }, { project }) =>
    length === 0 ? creating(project) : "revoke-bridge-enrollment-credential --credential ID"
})

const revokeBridgeEnrollmentCredential = irreversible("revoke-bridge-enrollment-credential", {
  description: "Revoke a bootstrap credential; a Bridge that enrolled with it stays enrolled",
  remote: "write",
  flags: { credential: Flags.id("credential", "Id of the credential; see list-bridge-enrollment-credentials") },
  losses: ({ credential }) => using(({ losses }) => losses.credential(credential)),
  run: ({ credential }) =>
    using(({ credentials }) =>
      Effect.map(credentials.revoke(credential), (revoked) => ({ credential_id: credential, ...revoked }))
    ),
  print: (revoked) => [...facts(revoked), next("list-bridge-enrollment-credentials --project ID")]
})

export const credentials = [
  createBridgeEnrollmentCredential,
  listBridgeEnrollmentCredentials,
  revokeBridgeEnrollmentCredential
]
