/** Ownership (decisions.md, Owner of a device): three projects with two people each, who all ask for every device. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { randomUUID } from "node:crypto"
import { makeProject } from "../../support/bridges/Bridge.ts"
import { Delivery } from "../../support/service/Delivery.ts"
import { everything, makePhone, makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { unchanged } from "../../support/database/Rows.ts"
import { makePerson } from "../../support/people/SignIn.ts"

const people = Effect.gen(function* () {
  const on = yield* Delivery
  const projects = [yield* makeProject(on as never), yield* makeProject(on as never), yield* makeProject(on as never)]
  return yield* Effect.forEach([...projects, ...projects], (project_id) =>
    Effect.gen(function* () {
      const person = yield* makePerson(on, { project_id })
      return { on, person, phone: yield* makeRegisteredPhone(on, person) }
    })
  )
})

const operations = {
  get: (phone, id) => phone.get(id),
  setPreferences: (phone, id) => phone.prefer(id, everything),
  "setPreferences with If-Match": (phone, id) => phone.prefer(id, everything, { headers: { "if-match": '"1"' } }),
  revoke: (phone, id) => phone.revoke(id)
} satisfies Record<string, (phone: ReturnType<typeof makePhone>, id: string) => ReturnType<typeof phone.get>>

layer(Delivery.layer)("a device of another owner", (it) => {
  for (const [name, operation] of Object.entries(operations)) {
    it.effect(`is answered by ${name} like one that does not exist, byte by byte`, () =>
      Effect.gen(function* () {
        const everybody = yield* people
        const unknown = [randomUUID(), "1", "..%2f..", "%00", "x".repeat(100)]
        for (const { on, person, phone } of everybody) {
          const mine = makePhone(on, person)
          const foreign = everybody.map((other) => other.phone.device_id).filter((id) => id !== phone.device_id)
          const answers = yield* unchanged(Effect.forEach([...foreign, ...unknown], (id) => operation(mine, id)))
          for (const { status, text } of answers) {
            assert.strictEqual(status, 404, text)
            assert.strictEqual(text, answers[0]!.text)
          }
          assert.strictEqual(answers[0]!.code, "device_not_found")
        }
        for (const { on, person, phone } of everybody) {
          assert.strictEqual((yield* operation(makePhone(on, person), phone.device_id)).status, 200)
        }
      })
    )
  }
})
