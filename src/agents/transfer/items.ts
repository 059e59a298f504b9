/** Pages and comparison of what is imported. */
import { pageSize } from "./Shapes.ts"

export const pagesOf = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / pageSize) }, (_, page) =>
    all.slice(page * pageSize, (page + 1) * pageSize)
  )

/** Files are read with `\n` at the ends of lines. */
export const sameText = (stored: string, read: string) => stored.replaceAll("\r\n", "\n") === read

export const sameList = (a: ReadonlyArray<string>, b: ReadonlyArray<string>) =>
  JSON.stringify(a.toSorted()) === JSON.stringify(b.toSorted())
