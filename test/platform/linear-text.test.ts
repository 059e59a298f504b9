/**
 * Every regular expression and every loop over text that somebody else wrote takes time linear in that text.
 *
 * An expression without `*`, `+` or `{n,}` reads at most a constant number of characters from each position. Every other
 * one is in a table below, with the largest text that it can meet and its worst cases, or with the reason why it meets no
 * foreign text. The worst cases are measured at an eighth of that size and at the whole.
 */
import { ConfigProvider, Effect, Layer, Option, Schema, Stream } from "effect"
import { Headers, HttpServerRequest } from "effect/http"
import { parseSync } from "oxc-parser"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { printed } from "../../cli/support/terminal/Print.ts"
import { canonical } from "../../src/agents/continuity/Idempotency.ts"
import { findHiddenIn, shown } from "../../src/agents/continuity/Shown.ts"
import { boundaryBefore, endOf, lineAt, lineCount, offsetOfLine } from "../../src/agents/documents/Fragment.ts"
import { allows } from "../../src/agents/mcp/Origins.ts"
import { parse } from "../../src/agents/mcp/Messages.ts"
import { textOf } from "../../src/agents/memory/Memory.ts"
import { everIndexed, keysIn, searchQuery, searchText } from "../../src/agents/memory/Search.ts"
import { edgeOfCycle } from "../../src/agents/tasks/dependencies/Cycle.ts"
import { lines } from "../../src/agents/transfer/TransferFile.ts"
import { BaseUrl } from "../../src/client/bridge/State.ts"
import { lines as linesOfBackup, longestLine } from "../../src/platform/backups/BackupLines.ts"
import { findSecretIn } from "../../src/platform/secrets/Secrets.ts"
import { Addresses } from "../../src/platform/edge/Addresses.ts"
import { html } from "../../src/platform/html/Html.ts"
import { packageRoot } from "../support/run/Root.ts"
import { isGuessable } from "../../src/platform/settings/SecretStrength.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { bindableCredentialOf, credentialOf } from "../../src/platform/edge/BearerCredential.ts"
import { displayName } from "../../src/signin/oauth/clients/ClientMetadata.ts"
import { isDocumentUrl } from "../../src/signin/oauth/clients/fetchDocument.ts"
import { isAcceptable, isDangerous, matches } from "../../src/signin/oauth/clients/RedirectUri.ts"
import { isResource } from "../../src/signin/oauth/metadata/Resource.ts"
import { parametersOf } from "../../src/signin/oauth/Parameters.ts"
import { markdownOfPage } from "../../src/people/console/Markdown.ts"
import { Base64Bytes } from "../../src/wire/Ids.ts"
import { Instant } from "../../src/wire/Instant.ts"
import { expanded, parsed, wordsOf } from "../../src/wire/Scopes.ts"
import { escaped, excerpt, findHidden, line, optionalProse, prose, text } from "../../src/wire/Text.ts"
import { read } from "../support/run/Markdown.ts"
import { environment } from "../support/service/Service.ts"

const kib = 1024
/** The largest texts: all headers of a request, its body, the body of a tool call, and an entry of memory. */
const headers = 16 * kib
const body = 16 * kib
const call = 1024 * kib
const entry = 16 * kib
/** What an operator passes: arguments, settings, files, answers of other programs. */
const operator = 128 * kib

/** A text of a size: what it begins with, what fills it, and what it ends with. */
type Worst = readonly [head: string, filling: string, tail: string]
const all = (...fillings: ReadonlyArray<string>): ReadonlyArray<Worst> => fillings.map((filling) => ["", filling, ""])

const expressions: ReadonlyArray<readonly [file: string, RegExp, size: number, ...ReadonlyArray<Worst>]> = [
  [
    "src/platform/secrets/Secrets.ts",
    /(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}={0,2}/g,
    call,
    ["", "a", "="],
    ["", `${"a".repeat(31)} `, ""]
  ],
  ["src/people/operator/CommandsHttp.ts", /^application\/json\s*(;|$)/i, headers, wide("application/json")],
  ["cli/commands/connect.ts", /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/, operator, ["[", "a", "!"], ["", "a", "!"]],
  ["cli/support/remote/flags.ts", /^--([a-z][a-z0-9-]*)(=)?(.*)$/s, operator, ["--", "a", "!"], ["--a", "=", "!"]],
  ["src/operator/ShellWord.ts", /^[\w.:@/-]+$/, operator, ["", "a", " "]],
  ["cli/support/Flags.ts", /^[^\0]+$/, operator, ["", "a", "\0"]],
  ["src/agents/continuity/Shapes.ts", /[^\p{L}\p{N}._:/+#-]+/gu, 256, ["", "!", "a"], ["", "!a", ""]],
  ["src/agents/continuity/Shapes.ts", /^-+/, 256, ["", "-", "a"]],
  ["src/agents/continuity/Shapes.ts", /(?<!-)-+$/, 256, ["", "-", "a"], ["", "-a", ""]],
  [
    "src/agents/tasks/Shapes.ts",
    /^((ssh:\/\/)?git@[^@?#:/]+[:/])?[^@?#]+$/,
    call,
    ["git@", "a", "@"],
    ["ssh://git@", "a:", "#"],
    ["", "a", "?"]
  ],
  [
    "src/agents/transfer/sources/FrontMatter.ts",
    /^[\p{L}_][\p{L}\p{N}_ .-]*:(?:\s|$)/u,
    16_384,
    ["", "a", ""],
    ["a", " ", ";"],
    ["", "a:", "a"]
  ],
  ["src/agents/documents/checkRepository.ts", /^[a-z0-9+.-]*::/i, operator, ["", "a", ":"], ["", "-", ""]],
  ["src/agents/memory/Memory.ts", /\p{Cc}+/gu, entry, ["", "\u0001", "x"], ["", "\u0001x", ""]],
  [
    "src/agents/memory/Search.ts",
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー々]+/gu,
    entry,
    ["", "中", "a"],
    ["", "中a", ""]
  ],
  [
    "src/agents/memory/Search.ts",
    /(?<![\p{L}\p{N}])[\p{L}\p{N}]+(?:[_./:@#\\-]+[\p{L}\p{N}]+)+|(?<!\p{L})\p{L}*\p{Ll}\p{Lu}[\p{L}\p{N}]*/gu,
    entry,
    ["", "a", "ф"],
    ["a", "_", "!"],
    ...all("a.", "a..", "9a", "aB", "A", "1")
  ],
  ["src/agents/memory/Search.ts", /\S{129,}/gu, entry, ["", "a", " "], ["", `${"a".repeat(128)} `, ""]],
  ["src/agents/memory/Search.ts", /[^\p{L}\p{N}]+/gu, entry, ["", ".", "a"], ["", ".a", ""]],
  [
    "src/agents/ranking/Names.ts",
    /(?<=[^.?!\s]\s)\p{Lu}[\p{L}\p{N}]+/gu,
    kib,
    ["", "a A", ""],
    ["a ", "A", ""],
    ...all(" A")
  ],
  ["src/agents/search/Search.ts", /^[a-z]{3,}i$/, entry, ["", "i", "!"], ["", "a", "i!"]],
  [
    "src/client/bridge/State.ts",
    /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/,
    headers,
    ["127.", "1", "!"],
    ["127", ".1", "!"]
  ],
  ["src/people/console/Writing.ts", /[\s,]+/u, 128 * kib, ["", " ", "a"], ["", ",a", ""]],
  ["src/platform/edge/Addresses.ts", /^([^/]+)(?:\/(\d{1,3}))?$/, operator, ["", "1", "/x"], ["", "1", "/1111"]],
  ["src/platform/edge/Boundary.ts", /(?<![^/\s])[^/\s]{37,}/g, headers, ["", `${"a".repeat(36)}/`, ""], ["", "a", ""]],
  [
    "src/platform/edge/Form.ts",
    /^application\/x-www-form-urlencoded\s*(;|$)/i,
    headers,
    wide("application/x-www-form-urlencoded")
  ],
  ["src/platform/settings/DataFolder.ts", /^[\w./-]+$/, operator, ["", "a", "!"]],
  [
    "src/platform/settings/Kinds.ts",
    /^[a-z0-9-]+(\.[a-z0-9-]+)+$/,
    operator,
    ["", "a", "!"],
    ["", "a.", ""],
    ["a", ".a", "!"]
  ],
  ["src/platform/settings/Settings.ts", /\s+/g, operator, ["", " ", "x"], ["", " x", ""]],
  ["src/platform/settings/Settings.ts", /^127\.\d+\.\d+\.\d+$/, headers, ["127.", "1", "!"], ["127", ".1", "!"]],
  ["src/push/Channel.ts", /\.[a-z][a-z0-9-]*$/, operator, [".", "a", "!"], ["", ".a", "!"]],
  [
    "src/push/channels/apns/Apns.ts",
    /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g,
    operator,
    ...all("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----A", "-")
  ],
  [
    "src/push/channels/apns/ApnsOutcome.ts",
    /^(TopicDisallowed|MissingTopic|BadTopic|BadEnvironmentKey\w*|Invalid\w*Token|MissingProviderToken|Forbidden|BadCertificate\w*)$/,
    headers,
    ["Invalid", "Token", "!"],
    ["BadCertificate", "a", "!"]
  ],
  [
    "src/platform/edge/BearerCredential.ts",
    /^(?:bearer|dpop) (.*\S.*)$/is,
    headers,
    ["dpop ", " ", ""],
    ["dpop ", "x", ""]
  ],
  ["src/platform/edge/BearerCredential.ts", /^bearer (.*\S.*)$/is, headers, ["bearer ", " ", ""], ["bearer ", "x", ""]],
  ["src/client/check/Server.ts", /^(?:Bearer|DPoP) (.+)$/, headers, ["DPoP ", "x", "\n"]],
  ["src/signin/oauth/JsonEndpoints.ts", /^application\/json\s*(;|$)/i, headers, wide("application/json")],
  [
    "src/signin/oauth/clients/ClientMetadata.ts",
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu,
    body,
    ["", " ", "x"],
    ["", "\u200bx", ""]
  ],
  [
    "src/signin/oauth/clients/RedirectUri.ts",
    /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(?::(\d{1,5}))?([/?].*)?$/,
    body,
    ["http://localhost/", "/", "\n"],
    ["http://localhost:1", "?", "\n"]
  ],
  ["src/signin/oauth/clients/RedirectUri.ts", /^[\x21-\x7e]+$/, body, ["", "a", " "]],
  [
    "src/signin/oauth/clients/RedirectUri.ts",
    /^[\s\0]*(javascript|data|file|vbscript|blob|about|view-source)\s*:/i,
    body,
    ["", " ", "x"],
    [" data", " ", "x"]
  ],
  [
    "src/signin/oauth/clients/RedirectUri.ts",
    /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/,
    body,
    ["a", "a", "!"],
    ["a", ".a", "!"]
  ],
  [
    "src/signin/oauth/clients/fetchDocument.ts",
    /^application\/(json|[a-z0-9.-]+\+json)(;|$)/i,
    headers,
    ["application/", "a", "!"],
    ["application/", "a+json", ""]
  ],
  [
    "src/signin/oauth/clients/fetchDocument.ts",
    /^https:\/\/[a-z0-9.-]+\/[\x21-\x7e]+$/,
    body,
    ["https://", "a", ""],
    ["https://a", "/", " "]
  ],
  ["src/signin/oauth/clients/fetchDocument.ts", /\.[a-z][a-z0-9-]*$/, body, ["", ".a", "!"], [".", "a", "!"]],
  [
    "src/signin/oauth/metadata/Resource.ts",
    /^([a-z]+:\/\/[^/?#]*)([^]*)$/i,
    body,
    ["a://", "x", "/\n"],
    ["a://", "/", "\n"],
    ["", "a", ""]
  ],
  [
    "src/signin/oauth/tokens/ClientAssertion.ts",
    /^bridge:([0-9a-f-]{36}):([^]+)$/,
    body,
    [`bridge:${"0".repeat(36)}:`, "a", ""],
    ["", "bridge:", ""]
  ],
  ["src/signin/passkeys/WebAuthn.ts", /^[A-Za-z0-9_-]+$/, body, ["", "a", "!"]],
  ["src/wire/Ids.ts", /^[A-Za-z0-9+/_-]+={0,2}$/u, call, ["", "A", "==="], ["A", "=", ""]],
  ["src/wire/Text.ts", /((?<!\p{M})\p{M}{31,})/u, call, ["", "\u0301", "x"], ["", `${"\u0301".repeat(30)}a`, ""]],
  [
    "src/wire/Text.ts",
    /^\p{Z}*([\p{M}\p{DI}\u2800])[\p{Z}\p{M}\p{DI}\u2800]*$/u,
    call,
    ["", " ", "x"],
    ["", "\u0301", "x"],
    ["", " \u0301", "x"],
    [" \ufe0f", " ", "x"]
  ],
  ["src/wire/Text.ts", /\p{Cc}+/gu, call, ["", "\u0001", "x"], ["", "\u0001x", ""]]
]

const never: ReadonlyArray<readonly [file: string, RegExp, reason: string]> = [
  ["src/platform/process/PortHolder.ts", /\s+/, "tables of the kernel"],
  ["src/platform/process/PortHolder.ts", /^\d+$/, "names of files in /proc"],
  ["src/platform/process/PortHolder.ts", /^VmRSS:\s+(\d+) kB$/m, "tables of the kernel"],
  ["src/people/site/docs/Markdown.ts", /^<picture>[^]*?^<\/picture>$/gm, "our own pages"],
  ["src/agents/mcp/ToolList.ts", /^1 to (\d+) visible ASCII characters$/, "descriptions of our own schemas"],
  ["src/platform/database/Migrations.ts", /^\d{4}_\w+\.sql$/, "the names of our migrations"],
  [
    "src/platform/database/Migrations.ts",
    /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|(\$\w*\$)[\s\S]*?\1|;/g,
    "our migrations"
  ],
  ["src/platform/database/Migrations.ts", /--[^\n]*|\/\*[\s\S]*?\*\//g, "our migrations"],
  ["src/platform/database/Persistence.ts", /^\s+at /, "lines of a stack that Node wrote"],
  ["src/platform/edge/compiled/Compiled.ts", /:(\w+)/g, "the paths of our contract"]
]

/** Expressions that are built from text, and whose parts are all bounded. */
const built = [
  ["src/platform/secrets/Rules.ts", 'new RegExp(source, "y")'],
  ["src/platform/secrets/Secrets.ts", 'new RegExp(rules.map(({ begins }) => `(${begins})`).join("|"), "g")'],
  ["src/platform/crypto/Tokens.ts", 'new RegExp(`^(${Object.keys(kinds).join("|")})_[0-9A-Za-z]{49}$`)'],
  [
    "src/platform/edge/compiled/Compiled.ts",
    'new RegExp(`^${path.replaceAll(/:(\\w+)/g, "(?<$1>[A-Za-z0-9-]{1,64})")}$`)'
  ],
  ["src/wire/Text.ts", 'new RegExp(`${hiddenInLine.source}|${hiddenAnywhere.source}`, "gv")'],
  ["src/wire/Text.ts", 'new RegExp(`${hiddenInProse.source}|${hiddenAnywhere.source}`, "gv")']
]

function wide(type: string): Worst {
  return [type, " ", "x"]
}

const trusting = ConfigProvider.layer(
  ConfigProvider.fromUnknown({ ...environment, SERVICE_TRUSTED_PROXIES: "127.0.0.0/8" })
)
const addresses = await Effect.runPromise(
  Addresses.pipe(Effect.provide(Addresses.layer.pipe(Layer.provide(Settings.layer), Layer.provide(trusting))))
)
const behindProxy = HttpServerRequest.fromWeb(new Request("http://a")).modify({
  remoteAddress: Option.some("127.0.0.1")
})

const document = (text: string) => Buffer.from(text)
/** As a file is read. */
const chunksOf = (text: string) => {
  const bytes = document(text)
  return Stream.fromIterable(
    Array.from({ length: Math.ceil(bytes.length / (64 * kib)) }, (_, index) =>
      bytes.subarray(index * 64 * kib, (index + 1) * 64 * kib)
    )
  )
}
const decode = (schema: Schema.ConstraintDecoder<unknown>) => Schema.decodeUnknownOption(schema)
const marks = "\u0301\u0316"

const secretsIn = (body: string) => findSecretIn({ body }, new Date(0))
/** Texts in which nearly every character is the beginning of a secret, or is read for one. */
const beginnings = all(
  ..."pwd=PWD= pwd=aA1!bbbb host=;pwd=aA1!bbbb sbt_ glpat- xoxb- xoxb-1-1-1-1- sk-T3BlbkFJ sk-ant-aa00- whsec_ npm_".split(
    " "
  ),
  `pwd=${"aA1!".repeat(50)};`,
  `sk-${"a".repeat(16)}T3BlbkFJ`,
  `eyJ${"x".repeat(40)}.`,
  "sk-",
  `${"sk-".repeat(30)}T3BlbkFJ${"a".repeat(16)} `,
  `.eyJ${"x".repeat(17)}`,
  `.${Buffer.from('{"alg": 1234567').toString("base64url")}`,
  // Runs in which a rule reads to the end from each beginning, and judges what it has read.
  ...["glpat-", "glpat-1", "xoxb-", "xoxb-1a", "sk-ant-aa00-"].flatMap((begins) =>
    [110, 240].map((length) => `${begins.repeat(length / begins.length)} `)
  ),
  `${"glpat-aBcDeFgHiJ1234567890kLmN-EXAMPLE-".repeat(7)} `,
  "hf_",
  `hf_${"a".repeat(34)} `,
  `npm_${"a".repeat(36)} `,
  `sbt_${"z".repeat(49)} `,
  ":AA",
  `1:AA${"a".repeat(33)} `,
  "://a:aA1!bbbb@b ",
  "http://a:aaaaaaaa@b ",
  "/:_auth=YWFhYWFhYWE= ",
  ":_auth=",
  `${Buffer.from('{"alg":1,"exp":1}').toString("base64url")}.`,
  "AIzaSy",
  "AKIAABCDEFGHIJKLMNOP ",
  "MTIzMTIzMTIzMTIzMTIz."
)

/** What reads text by more than one expression. */
const readers: Readonly<
  Record<string, readonly [run: (text: string) => unknown, size: number, ...ReadonlyArray<Worst>]>
> = {
  "an entry that is indexed": [
    searchText,
    entry,
    ["", "a", "ф"],
    ...all("a.", "9a", "aB", "1a@", "中", "中a", "<!--", " ", marks)
  ],
  "the dates of an entry": [
    keysIn,
    entry,
    ...all("in may ", "8 of May, ", "may. 8th, ", "2026-05-", "2026-05-08 ", "0a", "9f3c2ab ", "a", "1", "st of ")
  ],
  "an entry that is removed": [everIndexed, entry, ["", "a", "ф"], ...all("a.", "aB", "1a@", "中", "中a", "<!--", " ")],
  "a query": [searchQuery, entry, ["", "a", "ф"], ...all("a.", "中", marks)],
  "the text of an entry": [
    (body) => textOf({ body, title: "", tags: [] }),
    entry,
    ...all("\n", "\r", "\r\n", "\u0001", " ", "\u0001\n", "é")
  ],
  prose: [decode(prose(entry)), call, ...all("a", " ", "\u0001", "é", marks, `a${marks}`)],
  "a query's text": [decode(optionalProse(1000)), call, ...all(" ", marks)],
  "a line": [decode(line(200)), call, ...all("a", " ", marks)],
  "a short text": [decode(text(128)), call, ...all("a", " ", "𐐀", marks)],
  "what must not be shown in a line": [
    (text) => [findHidden(text, "line"), escaped(text, "line")],
    call,
    ...all("a", "\u200d", "a\u200d", "\u202e", "\ufe0f", "a\ufe0f", "葛\u{e0100}", "\u3164", "\u{e0041}", marks)
  ],
  "what must not be shown in several lines": [
    (text) => [findHiddenIn({ body: text }), shown({ body: text })],
    call,
    ...all("a", "\r", "\u200d", "\u202e", "\ufe0f", "a\ufe0f", "葛\u{e0100}", "\u3164", "\u{e0041}", marks)
  ],
  base64: [decode(Base64Bytes), call, ...all("A", "="), ["A", "=", "A"]],
  "an instant": [decode(Instant), call, ["2026-01-01T00:00:00.", "1", "Z"]],
  "an excerpt": [(text) => excerpt(text, 400), entry, ...all("a", "é", "中")],
  "the body of a tool call": [parse, call, ...all("[", '"', '\\"', "[]", " "), ["[", "{},", "{}]"], ['"', "\\\\", '"']],
  "the search for secrets": [
    secretsIn,
    call,
    ...beginnings,
    ...all("sbe_", "spt_a", `sbt_${"z".repeat(49)}`, `sbt_${"0".repeat(49)}`, "a", "://a:", "://a:b@c ", "password="),
    ...all(
      "-----BEGIN PRIVATE KEY-----",
      "-----BEGIN PRIVATE KEY-----\naaaaaaaa ",
      '"d":"a", ',
      `"d":"${"a".repeat(40)}" `
    ),
    ...all("AKIAIOSFODNN7ABCDEFG ", "eyJ", "eyJ.", `eyJ${"a".repeat(900)}.`, "xoxb-1-", "sk-a", "glpat-", "%41", "\\n"),
    ...all("server=a;password=", `${"a".repeat(40)} `)
  ],
  "the search for secrets in many fields": [
    (text) => findSecretIn(text.split(" "), new Date(0)),
    operator,
    ...all("sbe_ ", " ")
  ],
  "a request for its hash": [(text) => canonical(Object.fromEntries(text.split("").entries())), 64 * kib, ...all("a")],
  "a document": [
    (text) => {
      const bytes = document(text)
      return [
        lineCount(bytes),
        lineAt(bytes, bytes.length),
        offsetOfLine(bytes, 2 ** 31),
        endOf(bytes, 0, bytes.length - 1),
        boundaryBefore(bytes, bytes.length - 1)
      ]
    },
    call,
    ...all("\n", "a", "é", "a\n")
  ],
  "lines of an import": [
    (text) => Effect.runSync(Stream.runDrain(lines(chunksOf(text)))),
    512 * kib,
    ...all("a", "{}\n", `${"a".repeat(60 * kib)}\n`)
  ],
  "lines of a backup": [
    (text) => Effect.runSync(Stream.runDrain(linesOfBackup(chunksOf(text)))),
    longestLine,
    ...all("a", `[${"1,".repeat(50)}1]\n`)
  ],
  "the parameters of a form": [
    (text) => parametersOf(new URLSearchParams(text)),
    body,
    ...all("&", "code=&", "a=%00&", "%", "+")
  ],
  "a secret": [isGuessable, operator, ...all("a", "ab", "é", "abcdefghijklmnopqrstuvwxyz")],
  scopes: [(text) => [...expanded(wordsOf(text)), ...parsed(wordsOf(text))], body, ...all(" ", "a ", "tasks:read ")],
  "a credential that a key may be bound to": [
    bindableCredentialOf,
    headers,
    ["dpop", " ", "x"],
    ["", " ", ""],
    ["dpop ", "x", ""]
  ],
  "a bearer credential": [credentialOf, headers, ["bearer", " ", "x"], ["", " ", ""], ["bearer ", "x", ""]],
  "a resource": [(text) => isResource(text, "https://a.example/mcp"), body, ["https://", "a", "/\n"], ["", "a", "://"]],
  "a redirect URI": [
    (uri) => [isAcceptable(uri, "native"), isDangerous(uri), matches(uri, ["http://localhost/"])],
    body,
    ["", " ", "x"],
    ["http://localhost:1/", "a", "\n"],
    ["com.example", ".a", ":/"],
    ["https://a/?", "a&", ""]
  ],
  "a client's URL": [isDocumentUrl, body, ["https://", "a.", "/x"], ["https://a.b/", "a/", ""]],
  "a client's name": [displayName, body, ...all(" ", "\u200b", "é", marks)],
  "an origin": [
    allows(new URL("http://127.0.0.1"), undefined),
    headers,
    ["http://", "%CC%81%CC%96", ""],
    ["http://", "a.", ""]
  ],
  "a server's address": [decode(BaseUrl), headers, ["http://127.", "1", ""], ["http://", "a.", ""]],
  "the Markdown of an agent": [
    (text) => markdownOfPage()(text),
    entry,
    ...all(
      "*a ",
      "*a_ ",
      "__a",
      "**a *a ",
      "a**b",
      "~~a ",
      "[",
      "![",
      "[](",
      "![[]()",
      '[a](b "',
      "[a]\n\n",
      "[a]: b\n"
    ),
    ...all("`", "`` ` ", "<", "<http://", "&", "\\", "> ", "- ", "  - a\n", "- a\n  > ", "# a\n", "* * *\n", "x\n=\n"),
    ["|a|b\n|-|-\n", "|a|b\n", ""],
    [`${"|a".repeat(500)}\n${"|-".repeat(500)}\n`, "|\n", ""]
  ],
  "a page": [(text) => html`<p>${text}</p>`, body, ...all("&", "<", "a")],
  "a command's output": [(text) => printed(text.split("\n")), operator, ...all("\u202e", "\u{e0041}", "\n", "a")],
  "addresses of a chain of proxies": [
    (forwarded) => addresses.of(behindProxy.modify({ headers: Headers.fromInput({ "x-forwarded-for": forwarded }) })),
    headers,
    ...all(",", " ,", "127.0.0.1,", "10.0.0.1,")
  ]
}

const textFor = ([head, filling, tail]: Worst, size: number) => {
  const room = size - Buffer.byteLength(head) - Buffer.byteLength(tail)
  return head + filling.repeat(Math.max(1, Math.floor(room / Buffer.byteLength(filling)))) + tail
}

/** CPU time, which other processes do not lengthen; the shortest of several runs, because a garbage collection may. */
const millisecondsOf = (run: () => unknown, times: number) =>
  Math.min(
    ...Array.from({ length: times }, () => {
      const since = process.cpuUsage()
      run()
      const { system, user } = process.cpuUsage(since)
      return (system + user) / 1000
    })
  )

/**
 * Compares the time for a text with that for an eighth of it: 8 times as long if linear, 64 times if quadratic. Below 4 ms
 * the time says nothing, and hurts nobody. The small text goes first, so that the code is compiled.
 */
const isLinear = (run: (text: string) => unknown, size: number, worst: Worst) => {
  const [eighth, whole] = [textFor(worst, size / 8), textFor(worst, size)]
  return [1, 2, 3].some((attempt) => {
    const small = millisecondsOf(() => run(eighth), 3 + attempt)
    const large = millisecondsOf(() => run(whole), attempt)
    return large < 4 || large < 28 * small
  })
}

const apply = (expression: RegExp) => (text: string) =>
  expression.global ? text.replaceAll(expression, "") : expression.test(text)

/** Whether a quantifier remains without the character classes and escaped characters. */
function isUnbounded(pattern: string) {
  return /[*+]|\{\d+,\}/.test(pattern.replaceAll(/\[(?:\\.|[^\]\\])*\]|\\./g, ""))
}

/** The expressions of src/ and cli/ as their files have them: literals with an unbounded quantifier, and built ones. */
const found = ["src", "cli"].flatMap((folder) =>
  readdirSync(join(packageRoot, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(ts|mjs)$/.test(file))
    .flatMap((file) => {
      const path = `${folder}/${file}`
      const source = read(path)
      return expressionsIn(parseSync(path, source).program, source).map((expression) => [path, expression])
    })
)

function expressionsIn(node: unknown, source: string): ReadonlyArray<string> {
  if (typeof node !== "object" || node === null) return []
  if ("regex" in node && node.regex !== null) {
    const { flags, pattern } = node.regex as { readonly flags: string; readonly pattern: string }
    return isUnbounded(pattern) ? [`/${pattern}/${flags}`] : []
  }
  const isBuilt = "callee" in node && (node.callee as { readonly name?: string }).name === "RegExp"
  const { end, start } = node as { readonly end: number; readonly start: number }
  return [
    ...(isBuilt ? [source.slice(start, end)] : []),
    ...Object.values(node).flatMap((child) => expressionsIn(child, source))
  ]
}

describe("text of others is read in linear time", () => {
  it("every expression that repeats without bound is in a table, and nothing else", () => {
    const listed = [...[...expressions, ...never].map(([file, expression]) => [file, String(expression)]), ...built]
    assert.deepStrictEqual(
      found.map(String).toSorted((a, b) => (a < b ? -1 : 1)),
      listed.map(String).toSorted((a, b) => (a < b ? -1 : 1)),
      "see the head of this file"
    )
  })

  for (const [file, expression, size, ...worst] of expressions) {
    it(`${file}: ${expression}`, () => {
      for (const one of worst) assert.isTrue(isLinear(apply(expression), size, one), JSON.stringify(one))
    })
  }

  for (const [name, [run, size, ...worst]] of Object.entries(readers)) {
    it(`${name}`, () => {
      for (const one of worst) assert.isTrue(isLinear(run, size, one), JSON.stringify(one))
    })
  }

  // Being linear is not enough: a rule that reads hundreds of characters for each beginning stops the process for seconds.
  it("no text costs the search for secrets much more than prose does", () => {
    const of = (worst: Worst) => {
      const text = textFor(worst, 128 * kib)
      return millisecondsOf(() => secretsIn(text), 5)
    }
    const prose = of(["", "A note of what the team decided, and why; see docs/run.md. ", ""])
    for (const worst of beginnings) assert.isBelow(of(worst), 15 * prose, JSON.stringify(worst))
  })

  it("no Markdown costs a page much more than a list does", () => {
    const of = (worst: Worst, sizes = [entry]) => {
      const texts = sizes.map((size) => textFor(worst, size))
      return millisecondsOf(() => texts.map(markdownOfPage()), 10)
    }
    const list = of(["", "- what the team decided\n", ""])
    const table = `${"|a".repeat(181)}\n${"|-".repeat(181)}\n${"|\n".repeat(361)}\n`
    const reference = `[a]: mailto:${"&".repeat(8 * kib)}\n\n`
    for (const worst of [
      ["", table, ""],
      [reference, "[a] ", ""]
    ] satisfies ReadonlyArray<Worst>)
      assert.isBelow(of(worst), 20 * list, worst[0].slice(0, 20))
    // The largest page of a task: its body, its notes with the receipts' summaries, and the receipts' steps and pitfalls.
    const sizes = [entry, ...Array<number>(15).fill(4000), ...Array<number>(200).fill(500)]
    for (const worst of all("a\n\n", "1. a\n", "# a\n")) assert.isBelow(of(worst, sizes), 20 * list, worst[1])
  })

  it("a cycle of tasks", () => {
    const waits = (tasks: number) =>
      new Map(
        Array.from({ length: tasks }, (_, task) => [
          String(task),
          Array.from({ length: 32 }, (_, step) => String(task + step + 1))
        ])
      )
    assert.isTrue(isLinear((text) => edgeOfCycle(waits(text.length)), 4000, ["", "x", ""]))
  })

  it("a quadratic expression would be noticed", () => {
    assert.isFalse(isLinear((text) => /a+b/.test(text), entry, ["", "a", ""]))
  })
})
