import { escapes } from "../../../src/wire/Text.ts"

/**
 * Text as a terminal may show it. Characters that control it, reverse it or leave no mark become `\\u` and four hex
 * digits per UTF-16 unit: names and user agents come from strangers. In JSON that is another spelling of the same value.
 */
export const visible = (text: string) => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu, escapes)
