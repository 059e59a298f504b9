/** With which code a process ends (sysexits), and which signals end it. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Data, Exit } from "effect"
import { exitCode, isLasting, WorkerFailed } from "../../src/platform/process/Exit.ts"
import { onHangUp } from "../../src/platform/process/Signals.ts"

const codeOf = (exit: Exit.Exit<unknown, unknown>) => {
  let code: number | undefined
  exitCode(exit, (given) => (code = given))
  return code
}

const failure = (tag: string) => Exit.fail(new (class extends Data.TaggedError(tag) {})())

/** Only these may pass by themselves: a unit of systemd, and a script, then tries again. */
const temporary = [
  "DatabaseUnreachable",
  "ManagedPostgresError",
  "bridge_persistence_error",
  "bridge_rotation_in_progress",
  "rate_limited",
  "ServiceUnreachable",
  "OAuthUnreachable",
  "FolderInUse",
  "FolderUnavailable"
]
/** Somebody has to mend these first. */
const lasting = [
  "ConfigurationError",
  "DataFolderError",
  "DatabaseForbids",
  "DatabaseUnsuitable",
  "MigrationError",
  "NoServiceHere",
  "PostgresMissing",
  "SecretsError",
  "FolderError",
  "OtherBridge",
  "NotEnrolled"
]

describe("a process ends", () => {
  it("with 0 when it is done, or was interrupted", () => {
    assert.deepStrictEqual([codeOf(Exit.void), codeOf(Exit.failCause(Cause.interrupt()))], [0, 0])
  })

  it.each([
    [75, false, temporary],
    [78, true, lasting],
    [64, true, ["ShowHelp", "UsageError"]],
    [1, false, ["project_not_found", "ServeError"]]
  ])("with %i, after which a restart is useless: %s", (code, isUseless, tags) => {
    for (const tag of tags) assert.strictEqual(codeOf(failure(tag)), code, tag)
    assert.strictEqual(isLasting(code), isUseless)
  })

  it("with 1 after a defect, and with the code of a worker that could not start", () => {
    assert.strictEqual(codeOf(Exit.die(new Error("A planted defect"))), 1)
    assert.strictEqual(codeOf(Exit.fail(new WorkerFailed({ code: 78 }))), 78)
  })
})

describe("SIGHUP", () => {
  it.each([
    [undefined, true],
    [true, false]
  ])("of a process whose terminal is there: %s, replaces its workers: %s", (isTTY, replaces) => {
    const before = process.listeners("SIGHUP")
    const terminals = [process.stdin, process.stdout].map((stream) => [stream, stream.isTTY] as const)
    for (const [stream] of terminals) stream.isTTY = isTTY as boolean
    const act = () => {}
    onHangUp(act)
    const after = process.listeners("SIGHUP")
    for (const [stream, was] of terminals) stream.isTTY = was
    process.removeAllListeners("SIGHUP")
    for (const listener of before) process.on("SIGHUP", listener)
    assert.deepStrictEqual(after, replaces ? [act] : before)
  })
})
