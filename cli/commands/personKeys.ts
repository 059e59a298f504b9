/** Passkeys: what people sign in with instead of their project token. They add them at the console. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const listPersonKeys = list("list-person-keys", {
  description: "List the passkeys with which people sign in",
  flags: { project: Flags.anyProject("Id or name of a project; default: all of them").pipe(Flag.optional) },
  recorded: "person_key.listed",
  after: Flags.uuid("after", ""),
  key: "person_key_id",
  page: ({ personKeys }, { project }, page) => personKeys.list(Option.getOrUndefined(project), page),
  columns: ["person_key_id", "label", "status", "project_id", "project_token_id", "created_at", "last_used_at"],
  none: "Nobody has a passkey.",
  next: ({ length }) => (length === 0 ? "list-console-sessions" : "remove-person-key --key ID")
})

const removePersonKey = irreversible("remove-person-key", {
  description: "Remove a passkey, and sign out every browser in which it signed in",
  remote: "write",
  flags: { key: Flags.id("key", "Id of the passkey; see list-person-keys") },
  losses: ({ key }) => using(({ losses }) => losses.personKey(key)),
  run: ({ key }) => using(({ personKeys }) => Effect.as(personKeys.remove(key), { person_key_id: key })),
  print: (removed) => [...facts(removed), next("list-person-keys")]
})

export const personKeys = [listPersonKeys, removePersonKey]
