/** Width and weight of text on the terminal at stdout; follows NO_COLOR and TERM. */
export const isColoured = process.stdout.isTTY && process.stdout.hasColors()

/** Undefined if stdout is not a terminal. */
export const columns = () => (process.stdout.isTTY ? process.stdout.columns || 80 : undefined)

export const bold = (text: string) => (isColoured ? `\u001B[1m${text}\u001B[0m` : text)
