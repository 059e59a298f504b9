/** Profiles: the services that this account operates from elsewhere. They hold no secret, and need no database. */
import { Data, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { resolve } from "node:path"
import { frame } from "../support/frames/frame.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next, table } from "../support/terminal/Print.ts"
import { readProfiles, writeProfiles } from "../support/remote/Profiles.ts"
import { ServiceUrl } from "../support/remote/Target.ts"

class ProfileNotFound extends Data.TaggedError("ProfileNotFound")<{ readonly message: string }> {}

const name = Flags.label("name", 40, "Name of the profile")

const setProfile = frame("set-profile", {
  description:
    "Name a service elsewhere, so that --profile NAME runs commands there; replaces an earlier one of the name",
  flags: {
    name,
    url: Flags.flag(
      "url",
      ServiceUrl,
      "expected an https address without a path, or http on this machine",
      "Address of the service"
    ),
    tokenFile: Flags.path("token-file", "File with the operator token; the profile keeps only its path"),
    project: Flags.anyProject("Project of commands that name none").pipe(Flag.optional)
  },
  run: ({ name, project, tokenFile, url }) =>
    Effect.gen(function* () {
      const profile = { url: new URL(url).origin, token_file: resolve(tokenFile), project: Option.getOrNull(project) }
      yield* writeProfiles({ ...(yield* readProfiles), [name]: profile })
      return { name, ...profile }
    }),
  print: (set) => [...facts(set), next("list-projects --profile NAME", "or set SERVICE_PROFILE to its name")]
})

const listProfiles = frame("list-profiles", {
  description: "List the services that this account operates from elsewhere",
  flags: {},
  run: () =>
    Effect.map(readProfiles, (found) => Object.entries(found).map(([name, profile]) => ({ name, ...profile }))),
  print: (found) => [
    ...table(found, ["name", "url", "token_file", "project"], "There are no profiles."),
    next(found.length === 0 ? "set-profile --name NAME --url URL --token-file FILE" : "status --profile NAME")
  ]
})

const removeProfile = frame("remove-profile", {
  description: "Forget a service elsewhere; the file with its token stays",
  flags: { name },
  run: ({ name }) =>
    Effect.gen(function* () {
      const { [name]: removed, ...others } = yield* readProfiles
      if (removed === undefined)
        return yield* new ProfileNotFound({ message: "There is no profile of this name; see list-profiles." })
      yield* writeProfiles(others)
      return { name, ...removed }
    }),
  print: (removed) => [...facts(removed), next("list-profiles")]
})

export const profiles = [setProfile, listProfiles, removeProfile]
