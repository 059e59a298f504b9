/** Who runs a command: the system account and the host, as audit rows name them. */
import { Context } from "effect"
import { hostname, userInfo } from "node:os"

/** Containers may run under a uid without an account. */
const account = () => {
  try {
    return userInfo().username
  } catch {
    return `uid-${process.geteuid?.() ?? "unknown"}`
  }
}

/** Letters, digits and `.-_\`; an account may also have an `@`, so the host starts after the last one. */
const named = (name: string, kept = "") =>
  [...name.toWellFormed()]
    .slice(0, 64)
    .map((character) => (/[\p{L}\p{M}\p{N}._\\-]/u.test(character) || kept.includes(character) ? character : "_"))
    .join("")

export const operatorOf = (account: string, host: string) => `operator:${named(account, "@")}@${named(host)}`

/** The actor of every row that a command writes. Rows of earlier releases have `operator` alone. */
export const operator = operatorOf(account(), hostname())

/** The operator who acts: the one of this process, or the one whose session of the console sent the request. */
export const CurrentOperator = Context.Reference<string>("service/settings/CurrentOperator", {
  defaultValue: () => operator
})
