/** One thing that `doctor` looked at. */
export interface Check {
  readonly name: string
  /** `fail` is to be mended; `warn` is for somebody who knows to decide. */
  readonly status: "ok" | "warn" | "fail"
  /** What is, and what to do about it. */
  readonly message: string
}

export const check = (name: string, status: Check["status"], message: string): Check => ({ name, status, message })
