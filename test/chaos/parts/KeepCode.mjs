// Loaded before a server (node --import): what was compiled stays. Otherwise V8 drops what has not run during a few
// collections, and every look at the live memory is one: it would seem to shrink, and hide a leak.
import { setFlagsFromString } from "node:v8"

setFlagsFromString("--no-flush-bytecode")
