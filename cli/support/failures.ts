/** Failures of commands as codes and sentences. */
import { CliError, CliOutput } from "effect/cli"

const formatter = CliOutput.defaultFormatter({ colors: false })

export const usageMessage = (error: CliError.NonShowHelpErrors) => {
  if (error._tag === "InvalidValue") return `--${error.option}: ${wanted(error)}.`
  // A private key begins with dashes, too.
  if (error._tag === "UnrecognizedOption" && !/^--?[a-z-]{1,40}$/.test(error.option)) {
    return "Unrecognized flag; write a value that begins with a dash as --flag=VALUE."
  }
  if (error._tag === "UnexpectedArgument") return "Unexpected argument; pass values with flags."
  return formatter.formatCliError(error)
}

/** The library names the kind of value that it expects; our own flags say it in words (Flags.ts). */
const wanted = ({ expected, value }: CliError.InvalidValue) => {
  if (expected.startsWith("expected ")) return expected
  return value === "" ? "a value is missing" : `expected ${expected}`
}

/** `FileError` becomes `file_error`; a refusal's tag is its code already. */
export const codeOf = (tag: string) => tag.replaceAll(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase()
