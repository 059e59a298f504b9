/** The flags of a command as JSON and as arguments: `{"name": "Shop", "yes": true}` and `--name=Shop --yes`. */
import type { Flags } from "../../../src/operator/Commands.ts"

/**
 * Reads arguments that the parser has accepted. Commands have no operands, so a word without a dash is the value of the
 * flag before it.
 */
export const flagsOf = (args: ReadonlyArray<string>): Flags => {
  const flags: Record<string, true | string | ReadonlyArray<string>> = {}
  for (const [index, word] of args.entries()) {
    const [, name, equals, rest] = /^--([a-z][a-z0-9-]*)(=)?(.*)$/s.exec(word) ?? []
    if (name === undefined) continue
    const next = args[index + 1]
    const value = equals !== undefined ? rest! : next === undefined || next.startsWith("-") ? true : next
    const before = flags[name]
    flags[name] = value === true || before === undefined || before === true ? value : [before, value].flat()
  }
  return flags
}

export const argumentsOf = (flags: Flags): ReadonlyArray<string> =>
  Object.entries(flags).flatMap(([name, value]) => [value].flat().map((one) => `--${name}=${one}`))
