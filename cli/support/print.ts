/** Lines for people: times are absolute (ISO 8601, UTC), and the next command is spelled out. */

export const next = (command: string, why = "") => `Next: service-admin ${command}${why && `   # ${why}`}`

/** One line per fact. */
export const facts = (record: object): ReadonlyArray<string> => {
  const rows = Object.entries(record)
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${shown(value)}`)
}

/** One line per item under a line of column names; `none` where there are no items. */
export const table = <Item extends object>(
  items: ReadonlyArray<Item>,
  columns: ReadonlyArray<keyof Item & string>,
  none: string
): ReadonlyArray<string> => {
  if (items.length === 0) return [none]
  const rows = [[...columns], ...items.map((item) => columns.map((column) => shown(item[column])))]
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join("  ")
      .trimEnd()
  )
}

const shown = (value: unknown): string => {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return "-"
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(shown).join(",")
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}
