/** Reads TypeScript as a tree of nodes with their positions in the text. */
import { parseSync } from "oxc-parser"

export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: any
}

/** Calls `visit` for each node, parents first. Types are left out: they do nothing at run time. */
export const walk = (file: string, text: string, visit: (node: Node) => void) => {
  const descend = (node: any): void => {
    if (Array.isArray(node)) return node.forEach(descend)
    if (typeof node?.type !== "string" || node.type.startsWith("TS")) return
    visit(node)
    for (const child of Object.values(node)) if (typeof child === "object") descend(child)
  }
  descend(parseSync(file, text).program)
}
