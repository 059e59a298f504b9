/**
 * Parses what a client sends to PostgreSQL and reports every message after which a change may be committed: COMMIT, or a
 * statement that changes rows outside a transaction. Prepared statements are recognised by their names.
 */
export const commits = () => {
  const statements = new Map<string, string>()
  let pending: Buffer = Buffer.alloc(0)
  let started = false
  let inTransaction = false

  /** The type and the content of a message; the first message of a connection has no type. */
  const next = (): readonly [type: string, content: Buffer] | undefined => {
    const at = started ? 1 : 0
    if (pending.length < at + 4) return undefined
    const end = at + pending.readInt32BE(at)
    if (pending.length < end) return undefined
    const message = [started ? String.fromCharCode(pending[0]!) : "", pending.subarray(at + 4, end)] as const
    pending = pending.subarray(end)
    started = true
    return message
  }
  const runs = (statement: string) => {
    if (/^\s*begin\b/i.test(statement)) inTransaction = true
    if (/^\s*(commit|rollback)\b/i.test(statement)) inTransaction = false
    return (
      /^\s*commit\b/i.test(statement) || (!inTransaction && /\b(insert into|update|delete from)\b/i.test(statement))
    )
  }

  return (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk])
    let fatal = false
    for (let message = next(); message !== undefined; message = next()) {
      const [type, content] = message
      const texts = content.toString("latin1").split("\0")
      if (type === "Q") fatal = runs(texts[0]!) || fatal
      if (type === "P") statements.set(texts[0]!, texts[1]!)
      if (type === "B") fatal = runs(statements.get(texts[1]!) ?? "") || fatal
    }
    return fatal
  }
}
