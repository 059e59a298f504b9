/** Seeds the tests' random inputs: the same in every run, others with SEED=n. Loaded before each test file. */
import { configureGlobal } from "fast-check"

export const seed = Number(process.env["SEED"] ?? 1)

configureGlobal({ seed })
