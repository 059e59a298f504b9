/** What stops a Bridge on its own side of the wire. What the service refuses stays the service's code (Codes.ts). */
import { Data } from "effect"

/** No answer, or none of this protocol. The change may have happened; the same request may be sent again. */
export class ServiceUnreachable extends Data.TaggedError("ServiceUnreachable")<{
  readonly message: string
  /** False where the same question would only get the same answer: something else answers at this address. */
  readonly passing: boolean
}> {}

/** The state folder cannot be used as it is; the message says what to do. */
export class FolderError extends Data.TaggedError("FolderError")<{ readonly message: string }> {}

export class FolderInUse extends Data.TaggedError("FolderInUse")<{ readonly message: string }> {}

/** The folder belongs to another Bridge, or to an enrollment under other names. */
export class OtherBridge extends Data.TaggedError("OtherBridge")<{ readonly message: string }> {}

/** The folder holds no token. */
export class NotEnrolled extends Data.TaggedError("NotEnrolled")<{ readonly message: string }> {}
