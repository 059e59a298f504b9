/** What the tests start is compiled once for all of them. Loaded before each test file. */
import { compileCache } from "./Root.ts"

process.env["NODE_COMPILE_CACHE"] ??= compileCache
