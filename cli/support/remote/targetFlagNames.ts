/** The flags that say at which service a command runs. */
export const targetFlagNames: ReadonlyArray<string> = ["service", "operator-token-file", "profile"]
