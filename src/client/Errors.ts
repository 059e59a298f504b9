/** Failures on the client's side of the wire. A refusal of the service keeps the service's code (wire/bridges/*Errors.ts). */
import { Data } from "effect"

/** No answer, or an answer that does not follow the protocol. The change may have happened; a retry is safe. */
export class ServiceUnreachable extends Data.TaggedError("ServiceUnreachable")<{
  readonly message: string
  /** False if a retry would get the same answer, because something other than the service answers at this address. */
  readonly transient: boolean
}> {}

/** The state folder is missing, unreadable or open to others; the message says what to do. */
export class FolderError extends Data.TaggedError("FolderError")<{ readonly message: string }> {}

/** Another process holds the lock of the state folder. */
export class FolderInUse extends Data.TaggedError("FolderInUse")<{ readonly message: string }> {}

/** The folder belongs to another Bridge, or to an enrollment with another device id or display name. */
export class OtherBridge extends Data.TaggedError("OtherBridge")<{ readonly message: string }> {}

/** The folder holds no token. */
export class NotEnrolled extends Data.TaggedError("NotEnrolled")<{ readonly message: string }> {}
