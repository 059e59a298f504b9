/** What the terminal at stdout can show. */

/** Undefined if stdout is not a terminal: lines then have any length. */
export const columns = () => (process.stdout.isTTY ? process.stdout.columns || 80 : undefined)

/** Follows NO_COLOR and TERM. */
const coloured = process.stdout.isTTY && process.stdout.hasColors()

export const bold = (text: string) => (coloured ? `\u001B[1m${text}\u001B[0m` : text)
