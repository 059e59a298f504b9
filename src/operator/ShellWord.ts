/** Commands that a person copies into a shell. */

/** A value as one word of a POSIX shell: names and addresses of others may contain any character. */
export const shellWord = (text: string): string =>
  /^[\w.:@/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
