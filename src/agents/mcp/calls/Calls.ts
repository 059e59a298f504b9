/**
 * Runs a tools/call, from its raw arguments to its result. Every failure becomes a result with one of our codes (spec
 * 7.4).
 *
 * 1. The call waits for its turn, within the limits of the project: what follows costs time, and a refusal of step 2 an
 *    audit row. A tool that waits has turns for what comes before its wait. What comes after takes none, because whoever
 *    has waited is not refused, but its time counts as the project's.
 * 2. If the tool writes, write_context is checked before the other arguments are read.
 * 3. The arguments are decoded, and refused if a text contains a secret (spec 1.5), or characters that control, reorder or
 *    hide text. The tool runs.
 * 4. The result is encoded as structured content, and as text for clients that read only that. Such characters in older
 *    text are escaped. If the result does not fit into memory beside the token's unsent answers, a read is refused; what
 *    a write did is always answered.
 */
import { secretIn } from "../../../platform/secrets/Guard.ts"
import type { CallToolResult } from "@modelcontextprotocol/server"
import { Cause, Context, Effect, Layer, Result, Schema } from "effect"
import { Audit } from "../../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { withoutValues } from "../../../platform/database/Persistence.ts"
import { type CountAnswer, tokenShare } from "../../../platform/edge/limits/MemoryBudget.ts"
import { count, counted, limitRefusals, timed, toolCalls, toolSeconds } from "../../../platform/metrics/Metrics.ts"
import { spanned } from "../../../platform/metrics/Span.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import type { Actor } from "../../../wire/Actor.ts"
import { firstIssue } from "../../../wire/Issue.ts"
import { type Refusal, withDetails } from "../../../wire/Refusal.ts"
import { findUnacceptable } from "../../continuity/Acceptable.ts"
import { answersInUse } from "../../continuity/Budget.ts"
import { shown } from "../../continuity/Shown.ts"
import { Documents } from "../../documents/Documents.ts"
import { Activity } from "../../handover/Activity.ts"
import { Snapshot } from "../../handover/Snapshot.ts"
import { Memory } from "../../memory/Memory.ts"
import { Claims } from "../../tasks/Claims.ts"
import { Notes } from "../../tasks/Notes.ts"
import { Search } from "../../search/Search.ts"
import { Tasks } from "../../tasks/Tasks.ts"
import { Waits } from "../../tasks/Waits.ts"
import { asWritten, type JsonSchema } from "./AsWritten.ts"
import { CallBudget } from "./CallBudget.ts"
import { checkWriteContext } from "../checkWriteContext.ts"
import { failure, refuse } from "../Errors.ts"
import { inputSchemas } from "../ToolList.ts"
import { isWaiting, type Services, type Tool, type ToolName, tools } from "../Tools.ts"

type Given = Readonly<Record<string, unknown>>

/** `run` of any row. Its input type is erased; `codecs` decodes the input with the schema of the same row. */
type Run = (services: Services, actor: Actor, input: unknown) => Effect.Effect<unknown, Refusal>

export class Calls extends Context.Service<
  Calls,
  {
    /** The caller has checked that the actor's role and scopes allow the tool. */
    readonly call: (actor: Actor, name: ToolName, given: Given, count: CountAnswer) => Effect.Effect<CallToolResult>
  }
>()("service/mcp/Calls") {
  static readonly layer = Layer.effect(
    Calls,
    Effect.gen(function* () {
      const budget = yield* CallBudget
      const services: Services = {
        activity: yield* Activity,
        claims: yield* Claims,
        documents: yield* Documents,
        memory: yield* Memory,
        notes: yield* Notes,
        search: yield* Search,
        settings: yield* Settings,
        snapshot: yield* Snapshot,
        tasks: yield* Tasks,
        waits: yield* Waits,
        turn: (actor) => budget.admit(actor, { searches: false, writes: false })
      }
      const audit = yield* Audit
      const clock = yield* DatabaseClock
      const { resource } = services.settings

      const judge = Effect.fnUntraced(function* (actor: Actor, name: ToolName, given: Given) {
        const { write_context, ...rest } = given
        const { writes } = tools[name]
        if (writes) {
          yield* checkWriteContext(audit, yield* clock.now, { actor, resource, tool: name }, write_context)
        }
        const input = yield* decoded(name, writes ? rest : given)
        const secret = yield* secretIn(rest, yield* clock.now)
        return secret === undefined ? input : yield* secret
      })

      const answer = Effect.fnUntraced(function* (name: ToolName, output: unknown, countAnswer: CountAnswer) {
        const structuredContent = shown(yield* encoded(name, output))
        const text = JSON.stringify(structuredContent)
        const fits = yield* countAnswer(sentBytes(text), tools[name].writes)
        if (!fits) return yield* answersInUse(tokenShare)
        return success(structuredContent, text)
      })

      const call = (actor: Actor, name: ToolName, given: Given, countAnswer: CountAnswer) => {
        const turn = budget.admit(actor, tools[name])
        const run = (input: unknown) => (tools[name].run as Run)(services, actor, input)
        const answered = (output: unknown) => answer(name, output, countAnswer)
        const judged = judge(actor, name, given)
        const work = isWaiting(tools[name])
          ? turn(judged).pipe(
              Effect.flatMap(run),
              Effect.flatMap((output) => budget.finish(actor)(answered(output)))
            )
          : turn(judged.pipe(Effect.flatMap(run), Effect.flatMap(answered)))
        return work.pipe(
          Effect.tapErrorTag("limit_exceeded", ({ details }) => count(limitRefusals(String(details?.["limit"])))),
          counted(toolCalls, name),
          timed(toolSeconds(name)),
          Effect.catch((refusal) => Effect.succeed(failure(refusal))),
          Effect.catchCause(defectResult),
          spanned("Calls.call", { attributes: { tool: name } })
        )
      }

      return { call }
    })
  ).pipe(Layer.provide(Waits.layer))
}

/** An answer has its result as a value, and as text, in which JSON escapes each quote and backslash once more. */
const sentBytes = (text: string) => Buffer.byteLength(text) + Buffer.byteLength(JSON.stringify(text))

const codecOf = (tool: Tool) => ({
  decode: Schema.decodeUnknownResult(tool.input as Schema.Codec<unknown>, { onExcessProperty: "error" }),
  encode: Schema.encodeUnknownEffect(Schema.toCodecJson(tool.output as Schema.Codec<unknown>))
})
const codecs = Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, codecOf(tool)])) as Record<
  ToolName,
  ReturnType<typeof codecOf>
>

/** Every output is an object. */
const encoded = (name: ToolName, output: unknown) =>
  Effect.orDie(codecs[name].encode(output)) as Effect.Effect<Readonly<Record<string, unknown>>>

const decoded = Effect.fnUntraced(function* (name: ToolName, given: unknown) {
  const written = asWritten(inputSchemas[name], given)
  const input = codecs[name].decode(written)
  if (Result.isFailure(input)) {
    const [field, reason, unknown] = firstIssue(input.failure.issue)
    if (unknown === undefined) return yield* malformed(field === "" ? "arguments" : field, reason)
    const path = field === "" ? [] : field.split(".")
    return yield* malformed(
      [...path, ...(isName(unknown) ? [unknown] : [])].join(".") || "arguments",
      `${reason}; known: ${known(name, path)}`
    )
  }
  // As it was written: a tag is stored in lower case.
  const unacceptable = findUnacceptable(written)
  if (unacceptable === undefined) return input.success
  return yield* malformed(unacceptable.field, unacceptable.reason)
})

/** Whether a parameter's name may be repeated: it looks like one, and is no secret that stands where a name belongs. */
const isName = (given: string) => /^[a-z][a-z_]{0,31}$/i.test(given)

/** The names of the parameters, or of the fields of the one at `path`. */
const known = (name: ToolName, path: ReadonlyArray<string>) => {
  const schema = path.reduce<JsonSchema | undefined>(
    (outer, part) => outer?.properties?.[part] ?? outer?.items,
    inputSchemas[name]
  )
  const names = Object.keys(schema?.properties ?? {})
  return names.length === 0 ? "none" : names.join(", ")
}

/** Names the parameter and what is expected of it, but never repeats what was sent. */
const malformed = (field: string, reason: string) =>
  withDetails(refuse("invalid_request"), { field, reason }, `${field}: ${reason}.`)

const success = (structuredContent: unknown, text: string): CallToolResult => ({
  content: [{ type: "text", text }],
  structuredContent: structuredContent as Record<string, unknown>
})

/** Logs a defect without values and returns internal_error. */
const defectResult = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  if (Cause.hasInterruptsOnly(cause)) return yield* Effect.interrupt
  yield* Effect.logError("A tool failed").pipe(Effect.annotateLogs(withoutValues(cause)))
  return failure(refuse("internal_error"))
})
