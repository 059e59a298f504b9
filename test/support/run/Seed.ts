/** The random inputs of the tests: the same in every run, others with SEED=n. Each test file begins here. */
import { configureGlobal } from "fast-check"

export const seed = Number(process.env["SEED"] ?? 1)

configureGlobal({ seed })
