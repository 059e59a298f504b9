/** Services that an operator works with from elsewhere, by name: a file in the home folder, without any secret. */
import { Config, Data, Effect, Schema } from "effect"
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import { fileWork } from "../files/SecretFiles.ts"

export const Profile = Schema.Struct({
  url: Schema.String,
  token_file: Schema.String,
  project: Schema.NullOr(Schema.String)
})
export type Profile = typeof Profile.Type

const Profiles = Schema.fromJsonString(Schema.Record(Schema.String, Profile))

class ProfilesUnreadable extends Data.TaggedError("ProfilesUnreadable")<{ readonly message: string }> {}

const file = Config.NonEmptyString("XDG_CONFIG_HOME").pipe(
  Effect.orElseSucceed(() => join(homedir(), ".config")),
  Effect.map((folder) => join(folder, "bridge-service", "profiles.json"))
)

export const readProfiles = Effect.gen(function* () {
  const path = yield* file
  if (!existsSync(path)) return {}
  return yield* Effect.try(() => readFileSync(path, "utf8")).pipe(
    Effect.flatMap(Schema.decodeEffect(Profiles)),
    Effect.mapError(
      () =>
        new ProfilesUnreadable({ message: `${path} does not hold profiles: mend it, or remove it and set them again.` })
    )
  )
})

/** Replaces the file as a whole, so that a crash leaves the old one or the new one. */
export const writeProfiles = (profiles: Readonly<Record<string, Profile>>) =>
  Effect.flatMap(file, (path) => {
    const draft = `${path}.${process.pid}`
    return fileWork(path, () => {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      try {
        writeFileSync(draft, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 })
        renameSync(draft, path)
      } finally {
        rmSync(draft, { force: true })
      }
    })
  })
