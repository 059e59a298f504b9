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

/** The disk of the state folder is full, failing or read-only, or too many files are open: the same may work later. */
export class FolderUnavailable extends Data.TaggedError("FolderUnavailable")<{ readonly message: string }> {}

const passing = new Set(["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ENFILE"])

/** What a failed operation on `path` means. `code` is that of the system. */
export const folderFailure = (path: string, error: unknown) => {
  const { code = "", message } = error as NodeJS.ErrnoException
  return new (passing.has(code) ? FolderUnavailable : FolderError)({ message: `${path}: ${message}.` })
}

/** Another process holds the lock of the state folder. */
export class FolderInUse extends Data.TaggedError("FolderInUse")<{ readonly message: string }> {}

/** The folder belongs to another Bridge, or to an enrollment with another device id or display name. */
export class OtherBridge extends Data.TaggedError("OtherBridge")<{ readonly message: string }> {}

/** The folder holds no token. */
export class NotEnrolled extends Data.TaggedError("NotEnrolled")<{ readonly message: string }> {}
