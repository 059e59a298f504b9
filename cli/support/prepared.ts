/** Help by program and command. In a bundle, scripts/bundle.mjs replaces this file by one that holds it. */
import type { HelpDoc } from "effect/cli"

export const prepared: Readonly<Record<string, HelpDoc.HelpDoc>> = {}
