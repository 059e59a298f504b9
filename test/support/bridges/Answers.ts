/** What tests of the Bridge endpoints assert about an answer. */
import { assert } from "@effect/vitest"
import type { Answer } from "../network/Http.ts"

/** `outcome` is the status of a success or the code of a refusal. */
export const expectOutcome = (answer: Answer, outcome: number | string) =>
  assert.strictEqual(answer.code ?? answer.status, outcome, answer.text)

/** An exact retry gets the bytes of the first answer, and a header that says so (spec 3.4). */
export const expectReplayOf = (answer: Answer, first: Answer) => {
  assert.deepStrictEqual([answer.status, answer.text], [first.status, first.text])
  assert.strictEqual(first.headers.get("idempotency-replayed"), null)
  assert.strictEqual(answer.headers.get("idempotency-replayed"), "true")
}
