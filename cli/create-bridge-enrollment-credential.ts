import { Duration, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { next, table } from "./support/print.ts"
import { fileWork, withSecretFiles } from "./support/secretFile.ts"

const flags = {
  project: Flags.project,
  references: Flags.reference("account-reference").pipe(
    Flag.atLeast(1),
    Flag.withDescription("An approved account that the Bridge may name; repeatable")
  ),
  ttl: Flags.lifetime("How long it may be used (1h)").pipe(Flag.withDefault(Duration.hours(1))),
  reenroll: Flags.bridgeId("reenroll", "Replace key and tokens of this enrolled Bridge").pipe(Flag.optional),
  out: Flags.path("out", "The new file for the credential").pipe(Flag.optional),
  count: Flags.count("count", 1000, "How many credentials, with --out-dir").pipe(Flag.optional),
  outDir: Flags.path("out-dir", "Folder for one file <credential_id>.credential each").pipe(Flag.optional)
}

export const createBridgeEnrollmentCredential = command("create-bridge-enrollment-credential", {
  description: "Write a one-time credential for a new Bridge into a file that only you can read",
  flags,
  refuse: ({ count, out, outDir, reenroll }) => {
    const several = Option.isSome(count) && Option.isSome(outDir) && Option.isNone(out)
    const one = Option.isSome(out) && Option.isNone(count) && Option.isNone(outDir)
    if (!one && !several) return "Name --out FILE, or --count N and --out-dir DIR."
    return several && Option.isSome(reenroll) ? "--reenroll makes one credential: name --out FILE." : undefined
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
          yield* Effect.logWarning("A lifetime from 1m to 7d is usual for a bootstrap credential.")
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
