/** Refuses requests to Bridge endpoints without a bearer credential (spec 5, 7.2). */
import { Layer } from "effect"
import { present } from "../platform/edge/Requirements.ts"
import { refuse as refuseBridge } from "../wire/bridges/BridgeErrors.ts"
import { refuse as refuseEnrollment } from "../wire/bridges/EnrollmentApi.ts"
import { BootstrapCredential, BridgeToken } from "../wire/Headers.ts"

const bootstrapCredential = Layer.succeed(
  BootstrapCredential,
  BootstrapCredential.of({ bootstrap_credential: present(refuseEnrollment("bridge_enrollment_credential_required")) })
)

const bridgeToken = Layer.succeed(
  BridgeToken,
  BridgeToken.of({ bridge_token: present(refuseBridge("bridge_token_invalid")) })
)

export const bridgeRequirements = Layer.merge(bootstrapCredential, bridgeToken)
