/**
 * Records and tables. Without a terminal they are plain: full times, every column, lines of any length. On a terminal times
 * are relative, columns without a value are left out, and a table is made as narrow as the terminal: first long text is cut,
 * never what a command takes; if that is not enough, each item gets lines of its own.
 */
import { CliOutput } from "effect/cli"
import { visible } from "./visible.ts"

/** A terminal. */
export interface Screen {
  readonly columns: number
  /** Milliseconds since 1970. */
  readonly now: number
  readonly isColoured: boolean
}

/** A line, or what makes lines for a terminal, or for none. */
export type Line = string | ((screen: Screen | undefined) => string)

const width = CliOutput.displayWidth

/** One line per field: its name, padded, and its value. */
export const facts = (record: object): ReadonlyArray<Line> => [
  (screen) => {
    const rows = Object.entries(record)
    const left = Math.max(...rows.map(([name]) => name.length))
    return rows
      .map(([name, value]) => {
        const relative = screen !== undefined && value instanceof Date ? ` (${since(value, screen.now)})` : ""
        return `${name.padEnd(left)}  ${coloured(visible(screen === undefined ? plain(value) : spelled(value)), screen)}${relative}`
      })
      .join("\n")
  }
]

/** One line per item under a header of column names; the line `none` if there are no items. */
export const table = <Item extends object>(
  items: ReadonlyArray<Item>,
  columns: ReadonlyArray<keyof Item & string>,
  none: string
): ReadonlyArray<Line> =>
  items.length === 0
    ? [none]
    : [(screen) => (screen === undefined ? plainTable(items, columns) : screenTable(items, columns, screen))]

const plainTable = <Item extends object>(items: ReadonlyArray<Item>, columns: ReadonlyArray<keyof Item & string>) => {
  const rows = [[...columns], ...items.map((item) => columns.map((column) => visible(plain(item[column]))))]
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

const screenTable = <Item extends object>(
  items: ReadonlyArray<Item>,
  all: ReadonlyArray<keyof Item & string>,
  screen: Screen
) => {
  const columns = all.filter((column, number) => number === 0 || items.some((item) => plain(item[column]) !== "-"))
  const rows = items.map((item) => columns.map((column) => visible(short(item[column], screen.now))))
  const wanted = columns.map((column, number) => Math.max(column.length, ...rows.map((row) => width(row[number]!))))
  const widths = narrowed(
    wanted,
    columns.map((column, number) => number > 0 && !/(^|_)id$|^action$/.test(column)),
    screen.columns
  )
  if (widths === undefined) {
    const left = Math.max(...columns.map(({ length }) => length))
    return rows
      .map((row) =>
        row
          .flatMap((cell, number) =>
            cell === "-" ? [] : [`${columns[number]!.padEnd(left)}  ${coloured(cell, screen)}`]
          )
          .join("\n")
      )
      .join("\n\n")
  }
  const lineOf = (cells: ReadonlyArray<string>, style: (cell: string) => string) =>
    cells
      .map((cell, number) => {
        const shown = cut(cell, widths[number]!)
        const space = number === cells.length - 1 ? "" : " ".repeat(Math.max(0, widths[number]! - width(shown)))
        return style(shown) + space
      })
      .join("  ")
  return [
    lineOf(columns, (name) => (screen.isColoured ? `\u001B[1m${name}\u001B[0m` : name)),
    ...rows.map((row) => lineOf(row, (cell) => coloured(cell, screen)))
  ].join("\n")
}

/** Narrower than this, text says nothing. */
const least = 10

/** Widths that fit, made by narrowing the widest columns that may be cut; undefined if there are none. */
const narrowed = (wanted: ReadonlyArray<number>, mayCut: ReadonlyArray<boolean>, columns: number) => {
  const widths = wanted.map((width, column) => (mayCut[column] ? Math.min(width, columns) : width))
  const room = columns - 2 * (widths.length - 1)
  for (let over = sum(widths) - room; over > 0; over--) {
    const widest = widths.reduce(
      (best, width, column) => (mayCut[column] && width > least && width > (widths[best] ?? 0) ? column : best),
      -1
    )
    if (widest === -1) return undefined
    widths[widest] = widths[widest]! - 1
  }
  return widths
}

const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((total, number) => total + number, 0)

const cut = (text: string, to: number) => {
  if (width(text) <= to) return text
  let kept = ""
  let used = 1
  for (const character of text) {
    used += width(character)
    if (used > to) break
    kept += character
  }
  return `${kept}…`
}

const plain = (value: unknown): string => {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return "-"
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(plain).join(",")
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

const short = (value: unknown, now: number): string => (value instanceof Date ? since(value, now) : spelled(value))

/** An object as `name=value name=value`. */
const spelled = (value: unknown): string => {
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Date) return plain(value)
  return (
    Object.entries(value)
      .map(([name, part]) => `${name}=${plain(part)}`)
      .join(" ") || "-"
  )
}

const units = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60]
] as const

/** `in 23 h`, `5 min ago`: in the largest unit of which there are two. */
const since = (at: Date, now: number) => {
  const seconds = Math.round((at.getTime() - now) / 1000)
  const [unit, length] = units.find(([, length]) => Math.abs(seconds) >= 2 * length) ?? ["s", 1]
  const count = Math.round(Math.abs(seconds) / length)
  return seconds > 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`
}

const colours: Readonly<Record<string, number>> = {
  active: 32,
  ok: 32,
  done: 32,
  accepted: 32,
  enrolled: 32,
  fail: 31,
  refused: 31,
  revoked: 31,
  blocked: 31,
  expired: 33,
  warn: 33,
  pending: 33,
  waiting: 33
}

const coloured = (cell: string, screen: Screen | undefined) => {
  const colour = screen?.isColoured && Object.hasOwn(colours, cell) ? colours[cell] : undefined
  return colour === undefined ? cell : `\u001B[${colour}m${cell}\u001B[0m`
}
