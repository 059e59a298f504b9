/**
 * The WWW-Authenticate header of a rejected request (RFC 6750 3, RFC 9449 7.1, RFC 9728 5.1).
 *
 * One challenge per response, every value a quoted string, each attribute once: many clients cannot parse anything else.
 */
import { dpopAlgorithms } from "../possession/ClientProofs.ts"
import { expanded, ofRole, type Scope } from "../../wire/Scopes.ts"

/** `base_url` is the configured origin, never the Host header of a request. */
export const challenges = (base_url: string) => {
  const resource_metadata = `${base_url}/.well-known/oauth-protected-resource/mcp`
  const scope = ofRole("contributor").join(" ")
  const invalid = {
    error: "invalid_token",
    error_description: "The access token is invalid",
    resource_metadata,
    scope
  }
  return {
    missing: bearer({ resource_metadata, scope }),
    /** The same for malformed, unknown, expired, revoked and wrong-audience tokens (spec 5.3). */
    invalid: bearer(invalid),
    /** The same under the scheme DPoP, and for a token of another key. */
    invalidBound: dpop(invalid),
    /** `why` is about the proof alone: it is said before the token is looked up. */
    unproven: (why: string) =>
      dpop({
        error: "invalid_dpop_proof",
        error_description: `The DPoP proof is refused: ${why}`,
        resource_metadata,
        scope
      }),
    /**
     * Names what the operation needs together with what the token has: clients ask for exactly this, and a sign-in for the
     * missing scope alone would lose the others.
     */
    insufficient: (needed: ReadonlyArray<Scope>, held: Iterable<Scope>, bound: boolean) =>
      (bound ? dpop : bearer)({
        error: "insufficient_scope",
        error_description: "The access token lacks a scope that this operation needs",
        scope: expanded([...held, ...needed]).join(" "),
        resource_metadata
      })
  }
}

/** Whether a challenge is about the proof, whatever the token is worth. */
export const isAboutProof = (challenge: string | undefined): boolean =>
  challenge?.includes('error="invalid_dpop_proof"') ?? false

type Attributes = Readonly<Record<string, string>>

const bearer = (attributes: Attributes) => `Bearer ${listed(attributes)}`

const dpop = (attributes: Attributes) => `DPoP ${listed({ ...attributes, algs: dpopAlgorithms.join(" ") })}`

const listed = (attributes: Attributes) =>
  Object.entries(attributes)
    .map(([name, value]) => `${name}="${value.replaceAll(/["\\]/g, "\\$&")}"`)
    .join(", ")
