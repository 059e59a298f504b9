/**
 * Whether a concurrent history could have come from a sequential model (Wing and Gong, with Lowe's memoisation).
 *
 * Every call takes effect at one instant between its start and its end. The search looks for an order of these instants in
 * which the model gives every recorded answer. A call whose answer was lost may have taken effect at any time after its
 * start, or never.
 */

export interface Call<Op> {
  readonly op: Op
  readonly started: number
  /** Infinity if the answer was lost. */
  readonly ended: number
  /** Undefined if the answer was lost. */
  readonly outcome: string | undefined
}

export const linearizable = <State, Op>(
  calls: ReadonlyArray<Call<Op>>,
  initial: State,
  apply: (state: State, op: Op) => readonly [State, string]
): boolean => {
  const answered = calls.reduce((mask, call, i) => (call.outcome === undefined ? mask : mask | (1n << BigInt(i))), 0n)
  const seen = new Set<string>()

  const search = (done: bigint, state: State): boolean => {
    if ((done & answered) === answered) return true
    const visited = `${done} ${JSON.stringify(state)}`
    if (seen.has(visited)) return false
    seen.add(visited)
    const left = calls.flatMap((call, i) => ((done >> BigInt(i)) & 1n ? [] : [{ ...call, bit: 1n << BigInt(i) }]))
    const firstEnd = Math.min(...left.map(({ ended }) => ended))
    return left
      .filter(({ started }) => started < firstEnd)
      .some(({ bit, op, outcome }) => {
        const [after, answer] = apply(state, op)
        // A lost call that would change nothing may as well not have happened.
        const may = outcome === undefined ? JSON.stringify(after) !== JSON.stringify(state) : answer === outcome
        return may && search(done | bit, after)
      })
  }
  return search(0n, initial)
}
