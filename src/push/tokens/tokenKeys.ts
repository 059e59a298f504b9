/**
 * The keys for push tokens: SERVICE_PUSH_TOKEN_KEYS, then keys derived from the Bridge token secret. The first one is for
 * what is new; the others open what they sealed.
 */
import type { Array } from "effect"
import { subkey } from "../../platform/crypto/Derivation.ts"
import type { SealingKey } from "../../platform/crypto/Sealed.ts"
import type { Settings } from "../../platform/settings/Settings.ts"

export const tokenKeys = ({
  bridge,
  push
}: Pick<Settings["Service"], "bridge" | "push">): Array.NonEmptyReadonlyArray<SealingKey> => {
  const derivedFrom = (secret: typeof bridge.tokenSecret) => ({
    id: "derived",
    key: subkey(secret, "mobile/v1/push-token")
  })
  const previous = bridge.tokenSecretPrevious
  const derived = [derivedFrom(bridge.tokenSecret), ...(previous === undefined ? [] : [derivedFrom(previous)])] as const
  const [first = derived[0], ...others] = [...push.tokenKeys, ...derived]
  return [first, ...others]
}
