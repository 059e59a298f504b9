import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const revokeBridgeEnrollmentCredential = command("revoke-bridge-enrollment-credential", {
  description: "Revoke a bootstrap credential; a Bridge that enrolled with it stays",
  flags: { credential: Flags.uuid("credential", "Id of the credential; see list-bridge-enrollment-credentials") },
  run: ({ credential }) =>
    using(({ credentials }) =>
      Effect.map(credentials.revoke(credential), (revoked) => ({ credential_id: credential, ...revoked }))
    ),
  print: (revoked) => [...facts(revoked), next("list-bridge-enrollment-credentials --project ID")]
})
