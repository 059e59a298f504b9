/** Steps of a random history: chosen before it begins, and resolved to concrete operations when their turn comes. */
import * as fc from "fast-check"
import { type Fault, faults } from "../../support/service/Faults.ts"
import type { Op, State } from "./Model.ts"
import type { Real } from "./Real.ts"

/** What goes wrong: a statement fails, or the answer is lost. The caller then retries. */
interface Trouble {
  readonly fault: Fault | "answer dropped"
  readonly nth: number
}

export interface Plan {
  readonly kind: Op["op"] | "replace"
  /** Chooses among what exists when the step is taken. */
  readonly which: number
  readonly key: number
  readonly on: 0 | 1
  readonly trouble: Trouble | undefined
}

const weights: Readonly<Record<Plan["kind"], number>> = {
  prepare: 40,
  confirm: 30,
  abort: 12,
  self: 8,
  revoke: 2,
  issue: 8,
  challenge: 12,
  prove: 14,
  revokeCredential: 1,
  emergency: 1,
  disable: 1,
  enable: 6,
  wait: 24,
  sweep: 6,
  replace: 1
}

export const plan: fc.Arbitrary<Plan> = fc.record({
  kind: fc.oneof(
    ...Object.entries(weights).map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind as Plan["kind"]) }))
  ),
  which: fc.nat(999),
  key: fc.nat(2),
  on: fc.constantFrom(0, 1),
  trouble: fc.option(
    fc.record({ fault: fc.constantFrom(...faults, "answer dropped" as const), nth: fc.integer({ min: 1, max: 5 }) }),
    { freq: 3, nil: undefined }
  )
})

const waits = [1, 50, 100, 200, 299, 300, 300, 300, 301, 600, 1000, 3600]

/** The step as an operation on what exists; undefined if there is nothing to apply it to. */
export const resolve = ({ key, kind, which }: Plan, state: State, real: Real): Op | undefined => {
  const one = <A>(choices: ReadonlyArray<A>): A | undefined => choices[which % choices.length]
  const known = (names: object) => Object.keys(names).filter(real.knows)
  /** Half of the time the current one, so that histories make progress; otherwise any, so that they fail too. */
  const used = (all: Readonly<Record<string, { readonly state: string }>>, as: string) =>
    one(known(all).filter((name) => which % 2 === 0 || all[name]!.state === as)) ?? one(known(all))
  const token = used(state.tokens, "active")
  const credential = one(Object.keys(state.credentials))
  switch (kind) {
    case "issue": {
      const count = Object.keys(state.credentials).length
      return count < 5 ? { op: kind, credential: `c${count}`, reenroll: which % 3 > 0 && count > 0 } : undefined
    }
    case "revokeCredential":
      return credential === undefined ? undefined : { op: kind, credential }
    case "challenge":
      return credential === undefined
        ? undefined
        : { op: kind, credential, key: `k${key}`, keys: which % 4 === 0 ? "b" : "a" }
    case "prove": {
      const challenge = one(known(state.challenges))
      return challenge === undefined ? undefined : { op: kind, challenge, key: `p${key}` }
    }
    case "prepare":
      return token === undefined ? undefined : { op: kind, token, key: prepareKey(which, state) }
    case "confirm":
    case "abort": {
      const rotation = used(state.rotations, "pending") ?? "none"
      const bearer = which % 5 === 0 || rotation === "none" ? token : rotation
      return bearer === undefined ? undefined : { op: kind, token: bearer, rotation, key: `e${key}` }
    }
    case "revoke":
    case "self":
      return token === undefined ? undefined : { op: kind, token }
    case "wait":
      return { op: kind, seconds: one(waits)! }
    case "replace":
      return undefined
    default:
      return { op: kind }
  }
}

/** A fresh key, the latest one, or an earlier one. */
const prepareKey = (which: number, { rotations }: State) => {
  const keys = Object.keys(rotations)
  const [fresh, latest] = [`r${keys.length}`, keys.at(-1)]
  return [fresh, latest, keys[which % keys.length]][which % 3] ?? fresh
}
