/** What an editor of configuration files answers. */

/** The new text, or null if nothing is left of a file that only held our entry. */
export type Edited = { readonly text: string | null } | Unreadable

/** The file cannot be edited safely; `why` continues the sentence "FILE ...". */
export interface Unreadable {
  readonly why: string
  /** What to do about it; undefined where the change can only be made by hand. */
  readonly remedy?: string
}

/** Makes edits one after the other; the first that is refused ends them. */
export const inOrder = (text: string, edits: ReadonlyArray<(text: string) => Edited>) =>
  edits.reduce<Edited>((before, edit) => ("why" in before ? before : edit(before.text ?? "")), { text })

export const lineOf = (text: string, at: number) => text.slice(0, at).split("\n").length

/** The line ending of a file: that of its first line. */
export const lineEnding = (text: string) => (text[text.indexOf("\n") - 1] === "\r" ? "\r\n" : "\n")
