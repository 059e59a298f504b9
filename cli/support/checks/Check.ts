/** The result of one check of `doctor`. */
export interface Check {
  readonly name: string
  /** `fail` has to be fixed; `warn` may be intended, the operator decides. */
  readonly status: "ok" | "warn" | "fail"
  /** What was found, and what to do about it. */
  readonly message: string
}

export const check = (name: string, status: Check["status"], message: string): Check => ({ name, status, message })
