/** Error tables of the tools. */
import { Record } from "effect"

/**
 * Rows for codes that never become an HTTP answer: a caller reads them in a tool's result (spec 7.4), an operator on
 * the terminal. A row must have a status, so each gets 500; nothing serves or shows it.
 */
export const withoutStatus = <Code extends string>(sentences: Readonly<Record<Code, string>>) =>
  Record.map(sentences, (sentence) => [500, sentence] as const)
