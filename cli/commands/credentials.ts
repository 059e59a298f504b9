/** One-time bootstrap credentials with which Bridges enroll (spec 1.5, 2.2). */
import { Duration, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/list.ts"
import { facts, next, table } from "../support/Print.ts"
import { fileWork, withSecretFiles } from "../support/SecretFiles.ts"

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
  outDir: Flags.path("out-dir", "Folder for one file <credential_id>.credential each").pipe(Flag.optional)
}

const createBridgeEnrollmentCredential = command("create-bridge-enrollment-credential", {
  description: "Write a one-time credential for a new Bridge to a file that only you can read",
  flags: createFlags,
  refuse: ({ count, out, outDir, reenroll }) => {
    const several = Option.isSome(count) && Option.isSome(outDir) && Option.isNone(out)
    const one = Option.isSome(out) && Option.isNone(count) && Option.isNone(outDir)
    if (!one && !several) return "Pass --out FILE, or --count N with --out-dir DIR."
    return several && Option.isSome(reenroll) ? "--reenroll creates one credential: pass --out FILE." : undefined
  },
  run: ({ count, out, outDir, project, reenroll, references, ttl }) =>
    using(({ credentials, persistently }) =>
      Effect.gen(function* () {
        const minted = yield* Effect.replicateEffect(
          credentials.mint,
          Option.getOrElse(count, () => 1)
        )
        if (Option.isSome(outDir))
          yield* fileWork(outDir.value, () => mkdirSync(outDir.value, { recursive: true, mode: 0o700 }))
        const folder = Option.getOrElse(outDir, () => ".")
        const path = (credential_id: string) => Option.getOrElse(out, () => join(folder, `${credential_id}.credential`))
        const order = {
          project_id: project,
          account_references: references,
          ttl,
          reenroll_bridge_id: Option.getOrUndefined(reenroll)
        }
        const issued = yield* withSecretFiles(
          minted.map(({ credential, credential_id }) => ({ path: path(credential_id), secret: credential })),
          persistently(credentials.issue(order, minted))
        )
        if (Duration.isLessThan(ttl, Duration.minutes(1)) || Duration.isGreaterThan(ttl, Duration.days(7))) {
          yield* Effect.logWarning("Bootstrap credentials usually live between 1m and 7d; this one was created anyway.")
        }
        const written = issued.map((credential) => ({ ...credential, file: path(credential.credential_id) }))
        return Option.isSome(out) ? written[0]! : written
      })
    ),
  print: (result) => {
    const written = [result].flat()
    return [
      ...table(written, ["credential_id", "project_id", "expires_at", "file"], ""),
      next(`list-bridges --project ${written[0]!.project_id}`, "once the Bridge has enrolled with the file")
    ]
  }
})

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

const revokeBridgeEnrollmentCredential = command("revoke-bridge-enrollment-credential", {
  description: "Revoke a bootstrap credential; a Bridge that enrolled with it stays enrolled",
  flags: { credential: Flags.id("credential", "Id of the credential; see list-bridge-enrollment-credentials") },
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
