/** Colours code in the languages of the pages, as classes of highlight.js. */
import highlighter from "highlight.js/lib/core"
import bash from "highlight.js/lib/languages/bash"
import http from "highlight.js/lib/languages/http"
import json from "highlight.js/lib/languages/json"
import sql from "highlight.js/lib/languages/sql"
import typescript from "highlight.js/lib/languages/typescript"
import { html, type Html, trusted } from "../../../platform/html/Html.ts"

const languages = { sh: bash, http, json, sql, ts: typescript }
for (const [name, language] of Object.entries(languages)) highlighter.registerLanguage(name, language)

/** Code in no language, or in one that is not listed, stays as it is. */
export const highlighted = (code: string, language: string): Html => {
  if (!(language in languages)) return html`${code}`
  // The library would guess the language of a body, which is slow.
  const blank = language === "http" ? code.indexOf("\n\n") : -1
  const [head, body] = blank < 0 ? [code, ""] : [code.slice(0, blank), code.slice(blank)]
  return trusted(coloured(head, language) + coloured(body, "json"))
}

const coloured = (code: string, language: string) => highlighter.highlight(code, { language }).value
