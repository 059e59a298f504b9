/** Checks that no secret can be guessed, and that no secret reveals another. No message contains a secret's value. */
import { guessableIn, secretsIn } from "../../../src/platform/settings/SecretStrength.ts"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { check } from "./Check.ts"

export const secrets = (settings: object) => {
  const all = secretsIn(settings)
  const weak = guessableIn(settings)
  if (weak.length > 0) {
    const message = `${weak.join(", ")}: easy to guess`
    return check("secrets", "fail", `${message}. Replace with the output of: openssl rand -base64 32`)
  }
  const pair = all.flatMap((one, index) =>
    all.slice(index + 1).flatMap((other) => (overlap(one.value, other.value) ? [[one.name, other.name]] : []))
  )[0]
  if (pair !== undefined) {
    const message = `${pair[0]} and ${pair[1]} are equal, or one contains the other`
    return check("secrets", "fail", `${message}: generate each of them separately.`)
  }
  const previous = all.map(({ name }) => name).filter((name) => name.endsWith("_PREVIOUS"))
  return previous.length === 0
    ? check("secrets", "ok", "Long enough, and independent of each other.")
    : check("secrets", "ok", `Good. Remove ${previous.join(", ")} one day after the replacement.`)
}

/** Keys derived from the token secret are as strong, but replacing that secret replaces them too. */
export const pushKeys = ({ push }: Pick<Settings["Service"], "push">) => {
  if (push.apns === undefined) return []
  return push.tokenKeys.length > 0 && push.lookupKey !== undefined
    ? [check("push_keys", "ok", "Push tokens have keys of their own.")]
    : [
        check(
          "push_keys",
          "warn",
          "The keys of push tokens are derived from SERVICE_BRIDGE_TOKEN_SECRET: set SERVICE_PUSH_TOKEN_KEYS and SERVICE_PUSH_LOOKUP_KEY, then run rekey-push-tokens."
        )
      ]
}

/** With the embedded database the next start makes it. */
export const oauthSecret = ({ oauth }: Pick<Settings["Service"], "oauth">) =>
  oauth.secret === undefined
    ? check(
        "oauth_secret",
        "warn",
        "SERVICE_OAUTH_SECRET is not set: a client that loses the answer to a refresh has to sign in again. Set the output of: openssl rand -base64 32"
      )
    : check("oauth_secret", "ok", "A client that loses the answer to a refresh gets it again.")

export const backupKey = ({ backup }: { readonly backup: Pick<Settings["Service"]["backup"], "key"> }) =>
  backup.key === undefined
    ? [
        check(
          "backup_key",
          "warn",
          "SERVICE_BACKUP_KEY is not set, so backup-database refuses: set it to the output of openssl rand -base64 32, and keep a copy where the backups are not."
        )
      ]
    : []

export const erasureFile = ({ erasureFile }: Pick<Settings["Service"], "erasureFile">) =>
  erasureFile === undefined
    ? [
        check(
          "erasure_file",
          "warn",
          "SERVICE_ERASURE_FILE is not set, so nothing can be erased: name a file that is kept apart from the database and its backups."
        )
      ]
    : []

const overlap = (one: string, other: string) =>
  Math.min(one.length, other.length) >= 8 && (one.includes(other) || other.includes(one))
