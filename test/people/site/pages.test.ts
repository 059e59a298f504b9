/** The pages at / and /docs agree with the code and reveal no secrets (spec 4.9, 1.6, 9.1, 9.3). */
import { assert, it as plain, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { OpenApi } from "effect/http-api"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { runInNewContext } from "node:vm"
import { crc32, inflateSync } from "node:zlib"
import { entries, examples, pageOf } from "../../../src/people/site/docs/Contents.ts"
import { diagram } from "../../../src/people/site/docs/Diagrams.ts"
import { markdown } from "../../../src/people/site/docs/Markdown.ts"
import { outline } from "../../../src/people/site/docs/Outline.ts"
import { docsScript } from "../../../src/people/site/docs/Script.ts"
import { png, svg } from "../../../src/people/site/Icon.ts"
import { fieldsOf } from "../../../src/people/site/JsonSchema.ts"
import { examples as bodies } from "../../../src/people/site/OpenApiDocument.ts"
import { Api } from "../../../src/wire/Api.ts"
import { kinds, mint } from "../../../src/platform/crypto/Tokens.ts"
import { findSecret } from "../../../src/platform/secrets/Secrets.ts"
import { lists } from "../../../src/agents/mcp/ToolList.ts"
import { tools } from "../../../src/agents/mcp/Tools.ts"
import * as OAuth from "../../../src/signin/oauth/Errors.ts"
import { scopes } from "../../../src/wire/Scopes.ts"
import { sharedTable } from "../../../src/wire/Errors.ts"
import { packageRoot } from "../../support/run/Root.ts"
import { codesIn } from "../../support/bridges/Codes.ts"
import { send } from "../../support/network/Http.ts"
import { read, rows, sections } from "../../support/run/Markdown.ts"
import { environment, instance, Service } from "../../support/service/Service.ts"

const operations = Object.entries(OpenApi.fromApi(Api).paths).flatMap(([path, methods]) =>
  Object.entries(methods as Record<string, OpenApi.OpenAPISpecOperation>).map(([method, operation]) => ({
    path,
    method: method.toUpperCase(),
    ...operation
  }))
)

const commandFiles = readdirSync(join(packageRoot, "cli/commands")).map((file) => read(`cli/commands/${file}`))

/** The source of one command of service-admin with its flags, without the other commands of its file. */
const sourceOf = (command: string) => {
  const made = new RegExp(`(command|list|irreversible)\\("${command}"[^]*?\\n\\}\\)`)
  const file = commandFiles.find((source) => made.test(source)) ?? ""
  const [own = ""] = made.exec(file) ?? []
  const [, constant, fields = ""] = /^ {2}flags: (?:(\w+)|\{([^]*?)\}),$/m.exec(own) ?? []
  const named = [constant ?? "", ...fields.split(",").map((field) => field.trim())].filter((name) => /^\w+$/.test(name))
  return own + named.map((name) => new RegExp(`^const ${name} = [^]*?\\n\\n`, "m").exec(file)?.[0] ?? "").join("")
}

const get = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.flatMap(Service, ({ url }) => send(url + path, { method: "GET", headers }))

/** The text of a page without tags, with entities resolved. */
const visible = (page: string, blank = " ") =>
  page
    .replace(/<style>.*<\/style>/s, "")
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&")
    .replaceAll(blank === " " ? /\s+/g : /$^/g, " ")

const pageAt = (path: string) => Effect.map(get(path), ({ text }) => text)
/** The article or the section of a page that begins with this heading. */
const part = (page: string, id: string) => {
  const from = page.indexOf(` id="${id}">`)
  const ends = ["</article>", "<h2 ", "</main>"].map((end) => page.indexOf(end, from)).filter((at) => at >= 0)
  return from < 0 ? "" : "<h2" + page.slice(from, Math.min(...ends))
}

plain("a Markdown file becomes a page whose links, headings and rows can be reached", () => {
  const lines = [
    "# Run",
    "See [codes](protocol.md#codes), [source](../src/main.ts) and [below](#install).",
    "## Install",
    "## Install",
    "| Name | Count |",
    "|---|--:|",
    "| one | 1 |",
    "| two | 2 |",
    "",
    "| | |",
    "|---|---|",
    "| Port | `8787` |"
  ]
  const { text } = markdown("docs/run.md", lines.join("\n"))
  for (const expected of [
    '<a href="/docs/protocol#codes">codes</a>, <span class="file">source</span> and <a href="#install">below</a>',
    '<h2 id="install"><a href="#install">Install</a></h2>',
    '<h2 id="install-1"><a href="#install-1">Install</a></h2>',
    '<td class="number">1</td>',
    '<th scope="row">two</th>',
    'aria-label="Table 2"',
    '<th scope="row"><code class="short">8787</code></th>'
  ])
    assert.include(text, expected)
  assert.lengthOf(text.match(/<thead>/g)!, 1)
  assert.deepStrictEqual(
    outline(text).map(({ id, level, rows }) => [id, level, rows]),
    [
      ["run", 1, []],
      ["install", 2, []],
      [
        "install-1",
        2,
        [
          { id: "one", title: "one", rest: "1" },
          { id: "two", title: "two", rest: "2" },
          { id: "8787", title: "8787", rest: "Port" }
        ]
      ]
    ]
  )
})

plain("a schema is a list of its fields, each in words", () => {
  const schema = {
    properties: {
      name: { type: "string", maxLength: 5 },
      own: { anyOf: [{ type: "null" }, { $ref: "#/components/schemas/Own" }] },
      all: { items: { type: "object", properties: { kind: { enum: ["x", "y"] } } }, maxItems: 3 },
      at: { $ref: "#/components/schemas/InstantEncoded" },
      text: { type: "string", description: "<= 5 B" },
      code: { type: "string", pattern: "^x$" },
      either: { oneOf: [{ type: "string" }, { type: "integer" }, { type: "string" }] },
      some: { type: ["string", "null"] },
      any: {}
    },
    required: ["name"]
  }
  const own = { type: "object", properties: { count: { minimum: 1, maximum: 9 }, id: { format: "uuid" } } }
  const definitions = { Own: own, InstantEncoded: { type: "string" } }
  assert.deepStrictEqual(
    fieldsOf(schema, definitions).map(({ description, name, optional }) => [name, optional, description]),
    [
      ["name", false, "string, at most 5 characters"],
      ["own", true, "null or object"],
      ["own.count", true, "1 to 9"],
      ["own.id", true, "UUID"],
      ["all", true, "list of object, at most 3"],
      ["all.kind", true, "x or y"],
      ["at", true, "RFC 3339 time"],
      ["text", true, "at most 5 B"],
      ["code", true, "^x$"],
      ["either", true, "string or integer"],
      ["some", true, "string or null"],
      ["any", true, "any value"]
    ]
  )
})

plain("code is escaped, and coloured by its language; a request by that of its head and of its body", () => {
  const { text } = markdown(
    "docs/run.md",
    [
      "```sh",
      'echo "<b>"',
      "```",
      "```http",
      "POST /x HTTP/1.1",
      "accept: a",
      "",
      '{"name": "<b>"}',
      "```",
      "```",
      "<b>",
      "```",
      "",
      "    <b>"
    ].join("\n")
  )
  assert.notInclude(text, "<b>")
  assert.lengthOf(text.match(/<pre/g)!, 4)
  for (const expected of [
    '<span class="hljs-string">&quot;&lt;b&gt;&quot;</span>',
    '<span class="hljs-attribute">accept</span>',
    '<span class="hljs-attr">&quot;name&quot;</span>'
  ])
    assert.include(text, expected)
})

plain("a diagram says each step in words and draws it from its sender; what is not understood is none", () => {
  const { text } = diagram(`sequenceDiagram
    accTitle: How it goes
    participant Bridge
    participant Service
    Bridge->>Service: a request
    Service-->>Bridge: an answer
    Service--xBridge: 409
    Note over Bridge: waits
    Note over Bridge,Service: Later: it ends`)!
  assert.strictEqual(
    /<desc[^>]*>([^<]*)</.exec(text)![1]!.trim(),
    "Bridge to Service: a request. Service to Bridge: an answer. Service to Bridge: 409. Bridge: waits. Later: it ends."
  )
  assert.deepStrictEqual(
    [...text.matchAll(/<path class="(\w+) tip" d="M(\d+) \d+l(-?\d+) /g)].map(([, ...tip]) => tip),
    [
      ["request", "299", "-8"],
      ["answer", "101", "8"],
      ["refusal", "101", "8"]
    ]
  )
  const states = diagram("stateDiagram-v2\n[*] --> in_use\nin_use --> old: time\nin_use --> gone: its end")!
  assert.match(states.text, /rowspan="2">in use<[^]*>time<[^]*>old<[^]*>its end<[^]*>gone</)
  for (const unknown of ["sequenceDiagram\n  loop always", "stateDiagram-v2\n  state Big {"])
    assert.isUndefined(diagram(unknown))
})

plain("the icon is a white bridge on a ground, and the badge the bridge alone", () => {
  const pixelsOf = (bytes: Uint8Array) => {
    const file = Buffer.from(bytes)
    assert.strictEqual(file.toString("latin1", 0, 8), "\x89PNG\r\n\x1a\n")
    const chunks = new Map<string, Buffer>()
    for (let at = 8; at < file.length; at += 12 + file.readUInt32BE(at)) {
      const end = at + 8 + file.readUInt32BE(at)
      assert.strictEqual(crc32(file.subarray(at + 4, end)), file.readUInt32BE(end))
      chunks.set(file.toString("latin1", at + 4, at + 8), file.subarray(at + 8, end))
    }
    assert.deepStrictEqual([...chunks.keys()], ["IHDR", "IDAT", "IEND"])
    assert.deepStrictEqual([...chunks.get("IHDR")!], [0, 0, 0, 48, 0, 0, 0, 48, 8, 6, 0, 0, 0])
    const pixels = inflateSync(chunks.get("IDAT")!)
    return (x: number, y: number) => [...pixels.subarray(y * 193 + 1 + 4 * x, y * 193 + 5 + 4 * x)]
  }
  const [icon, badge] = (["icon", "badge"] as const).map((kind) => pixelsOf(Effect.runSync(png(48, kind))))
  for (const [x, y, isWhite] of [
    [0, 0, false],
    [24, 30, true],
    [17, 20, true],
    [24, 20, false]
  ] as const) {
    assert.deepStrictEqual(icon!(x, y), isWhite ? [255, 255, 255, 255] : [23, 93, 220, 255])
    assert.deepStrictEqual(badge!(x, y), [255, 255, 255, isWhite ? 255 : 0])
  }
  assert.include(svg, '<line x1="100" y1="330" x2="412" y2="330" stroke-width="28"/>')
  assert.include(svg, 'fill="rgb(23,93,220)"')
})

layer(Service.layer)("the reference at /docs", (it) => {
  it.effect("has every tool with its description, its scopes and every parameter", () =>
    Effect.gen(function* () {
      const page = yield* pageAt("/docs/tools")
      assert.lengthOf(page.match(/<h2 id="tool-/g)!, Object.keys(tools).length)
      for (const { description, inputSchema, name, title } of lists.contributor) {
        const shown = visible(part(page, `tool-${name}`))
        const { needs, writes } = tools[name as keyof typeof tools]
        for (const word of [name, description, `${title} ${writes ? "writes" : "reads"} ${needs.join(" ")}`])
          assert.include(shown, word)
        for (const field of Object.keys((inputSchema as { readonly properties?: object }).properties ?? {}))
          assert.include(shown, field, name)
      }
      for (const [name, field] of [
        ["memory_search", "limit optional 1 to 50"],
        ["task_create", "priority optional 0 to 4"],
        ["task_create", "tags optional list of string, at most 16"]
      ] as const)
        assert.include(visible(part(page, `tool-${name}`)), field)
    })
  )

  it.effect("an address that leads nowhere is a page for a browser, and a code for a program", () =>
    Effect.gen(function* () {
      const page = yield* get("/docs/nowhere", { accept: "text/html,application/xhtml+xml,*/*;q=0.8" })
      assert.strictEqual(page.status, 404)
      assert.strictEqual(page.headers.get("content-type"), "text/html; charset=utf-8")
      assert.strictEqual(page.headers.get("vary"), "Accept")
      for (const [, path] of page.text.matchAll(/<a [^>]*href="([^"]+)"/g))
        assert.include([200, 303], (yield* get(path!)).status, path)
      for (const accept of ["application/json", "*/*"]) {
        const { body, status } = yield* get("/docs/nowhere", { accept })
        assert.deepStrictEqual([status, (body as any).error.code], [404, "not_found"])
      }
      for (const path of ["/.well-known/nowhere", "/bridge/v1/nowhere", "/operator/v1/nowhere"]) {
        const { body, status } = yield* get(path, { accept: "text/html, */*; q=.2" })
        assert.deepStrictEqual([status, (body as any).error.code], [404, "not_found"], path)
      }
    })
  )

  it.effect("has every scope with the roles that may have it", () =>
    Effect.gen(function* () {
      const shown = visible(part(yield* pageAt("/docs/tools"), "scopes"))
      const whose = { read: "reader, contributor", write: "contributor", devices: "only clients that an operator" }
      for (const scope of scopes) assert.include(shown, `${scope} ${whose[scope.split(":")[1] as keyof typeof whose]}`)
    })
  )

  it.effect("has every endpoint of the OpenAPI document with its credential, its fields and exactly its codes", () =>
    Effect.gen(function* () {
      const page = yield* pageAt("/docs/endpoints")
      assert.lengthOf(page.match(/<h3 id="endpoint-/g)!, operations.length)
      for (const { method, operationId, parameters, path, responses, security } of operations) {
        const shown = visible(part(page, `endpoint-${operationId}`))
        assert.include(shown, `${method} ${path}`)
        const [scheme] = security.flatMap((one) => Object.keys(one))
        assert.strictEqual(/Bearer: (\w+ \w+)/.exec(shown)?.[1], scheme?.replaceAll("_", " "), operationId)
        const [asked = "", answered = ""] = shown.split(/Response \d/)
        const [headers = "", body = ""] = asked.split("Request body")
        for (const { in: place, name, required } of parameters)
          if (place === "header")
            assert.match(headers, new RegExp(`Headers .*${name} ${required ? "(?!optional)" : "optional"}`))
        const { answer = {}, request = {} } = bodies[operationId] ?? {}
        for (const name of Object.keys(request)) assert.match(body, new RegExp(`\\b${name}\\b`), operationId)
        for (const name of Object.keys(answer)) assert.match(answered, new RegExp(`\\b${name}\\b`), operationId)
        const listed = shown.slice(shown.indexOf("Errors")).match(/\d{3} \w+/g)
        const declared = Object.entries(responses).flatMap(([status, response]) =>
          codesIn(response).map((code) => `${status} ${code}`)
        )
        assert.sameMembers(listed!, declared, path)
      }
    })
  )

  it.effect("has every code with its status and its message", () =>
    Effect.gen(function* () {
      const shown = visible(yield* pageAt("/docs/codes"))
      for (const { Code, Message, Status } of rows(sections(read("docs/protocol.md"), 2).get("Codes")!)) {
        assert.include(shown, `${Status} ${Code}`)
        assert.include(shown, Message!)
      }
      for (const [code, [status]] of Object.entries(sharedTable)) assert.include(shown, `${status} ${code}`)
      for (const code of OAuth.codes) assert.include(shown, `${OAuth.refuse(code).status} ${code}`)
    })
  )

  it.effect("has every code that a tool's description names", () =>
    Effect.gen(function* () {
      const shown = visible(yield* pageAt("/docs/codes"))
      const fails = lists.contributor.map(({ description }) => description.split("Fails with")[1] ?? "")
      const named = fails.join().match(/\b[a-z]+(_[a-z]+)+\b/g)!
      assert.includeMembers(named, ["task_not_found", "stale_version", "document_not_pinned"])
      for (const code of [...named, "write_context_mismatch"]) if (code !== "depends_on") assert.include(shown, code)
    })
  )

  it.effect("names routes outside the OpenAPI document that exist, and leaves out those that are turned off", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_OAUTH_REVOCATION: "off", SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })
      const page = (yield* send(`${url}/docs/service`, { method: "GET" })).text
      assert.include(visible(page), "Clients can register themselves here.")
      const rest = visible(part(page, "other-routes"))
      const named = [...rest.matchAll(/(GET|POST) (\/\S+)/g)].map(([, method, path]) => [method!, path!] as const)
      assert.isAbove(named.length, 9)
      for (const [method, path] of named) {
        const { code } = yield* send(url + path, { method })
        assert.notInclude(["not_found", "method_not_allowed"], code, path)
      }
      const paths = named.map(([, path]) => path)
      assert.include(paths, "/register")
      assert.notInclude(paths, "/revoke")
    })
  )

  it.effect("shows patterns for secret scanners, and they match every kind of token", () =>
    Effect.gen(function* () {
      const shown = visible(part(yield* pageAt("/docs/service"), "tokens"))
      const patterns = shown.match(/\\b\S+\\b/g)!.map((pattern) => new RegExp(pattern))
      for (const kind of Object.keys(kinds).filter((one) => one !== "sci")) {
        const token = Redacted.value(yield* mint(kind as keyof typeof kinds))
        assert.lengthOf(
          patterns.filter((pattern) => pattern.test(`key=${token};`)),
          2,
          kind
        )
      }
    })
  )
})

layer(Service.layer)("the pages at /docs", (it) => {
  it.effect("show every Markdown file of docs/", () =>
    Effect.gen(function* () {
      for (const name of readdirSync(join(packageRoot, "docs")).filter((one) => one.endsWith(".md"))) {
        const path = pageOf(`docs/${name}`)
        assert.isDefined(path, `${name} has no entry in Contents.ts`)
        const [first = ""] = read(`docs/${name}`).split("\n")
        assert.include(visible(yield* pageAt(path!)), first.slice(2), name)
      }
    })
  )

  it.effect("are linked from the first one, each in the chapter of its reader, and link to their neighbours", () =>
    Effect.gen(function* () {
      const first = yield* pageAt("/docs")
      const main = first.slice(first.indexOf("<main"))
      for (const { path } of entries) assert.include(main, `href="${path}"`)
      const second = yield* pageAt(entries[1]!.path)
      assert.include(second, `rel="prev" href="${entries[0]!.path}"`)
      assert.include(second, `rel="next" href="${entries[2]!.path}"`)
      assert.match(second, new RegExp(`href="${entries[1]!.path}" +aria-current="page"`))
    })
  )

  it.effect("draw the four flows, each with a description in words, and show the state chart as a table", () =>
    Effect.gen(function* () {
      const shown = (yield* pageAt("/docs/bridges")) + (yield* pageAt("/docs/agents"))
      const pictures = shown.match(/<svg.*?<\/svg>/gs)!
      assert.lengthOf(pictures, 4)
      const codes = [
        "enrollment_proof_invalid",
        "bridge_rotation_predecessor_expired",
        "bridge_key_rotation_expired",
        "access_denied"
      ]
      for (const [index, picture] of pictures.entries()) {
        assert.include(/<desc.*?<\/desc>/s.exec(picture)![0], codes[index]!)
      }
      const known = operations.flatMap(({ responses }) => Object.values(responses).flatMap(codesIn))
      for (const [, code] of pictures.join().matchAll(/>4\d\d ([a-z]+_[a-z_]+)</g)) assert.include(known, code)
      const chart = yield* pageAt("/docs/proof")
      assert.include(visible(chart), "without a token")
      for (const source of ["sequenceDiagram", "stateDiagram"]) assert.notInclude(shown + chart, source)
    })
  )

  it.effect("offer the Bridges to start from as plain text", () =>
    Effect.gen(function* () {
      const page = yield* pageAt("/docs/bridges")
      for (const { file, path } of examples) {
        assert.include(page, `href="${path}"`)
        const { headers, text } = yield* get(path)
        assert.strictEqual(text, read(file))
        assert.strictEqual(headers.get("content-type"), "text/plain; charset=utf-8")
      }
    })
  )

  it.effect("show the address of this deployment where a client is connected", () =>
    Effect.gen(function* () {
      const lifetimes = [
        ["Challenge", "90 seconds", "SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS", 90],
        ["Bridge token", "2 days", "SERVICE_BRIDGE_TOKEN_TTL_SECONDS", 172_800],
        ["Pending rotation, from prepare to confirm", "1 minute", "SERVICE_BRIDGE_ROTATION_TTL_SECONDS", 60],
        ["Retry of a proof", "1 second", "SERVICE_BRIDGE_PROOF_REPLAY_SECONDS", 1],
        ["Authorization code", "61 seconds", "SERVICE_OAUTH_CODE_TTL_SECONDS", 61],
        ["Access token", "90 minutes", "SERVICE_OAUTH_ACCESS_TTL_SECONDS", 5400],
        ["Access token of a phone app", "1 hour", "SERVICE_OAUTH_MOBILE_ACCESS_TTL_SECONDS", 3600],
        ["Refresh token, if unused", "2 hours", "SERVICE_OAUTH_REFRESH_IDLE_TTL_SECONDS", 7200],
        ["Grant (a sign-in), at most", "1 day", "SERVICE_OAUTH_REFRESH_MAX_TTL_SECONDS", 86_400]
      ] as const
      const { url } = yield* instance({
        SERVICE_BASE_URL: "https://bridge.example.com",
        SERVICE_AUTH_URL: "https://auth.example.com",
        SERVICE_OAUTH_CIMD: "off",
        SERVICE_OAUTH_DYNAMIC_REGISTRATION: "off",
        ...Object.fromEntries(lifetimes.map(([, , setting, seconds]) => [setting, String(seconds)]))
      })
      const own = visible((yield* send(`${url}/docs/service`, { method: "GET" })).text)
      assert.include(own, lifetimes.map(([subject, length, setting]) => `${subject} ${length} ${setting}`).join(" "))
      assert.include(own, "Clients cannot register themselves here.")
      assert.notInclude(own, "metadata document")
      assert.include(own, "Agents https://bridge.example.com/mcp Sign-in https://auth.example.com")
      const page = (yield* send(`${url}/docs/agents`, { method: "GET" })).text
      const shown = visible(page)
      assert.isAbove(shown.match(/https:\/\/bridge\.example\.com\/mcp/g)!.length, 4)
      assert.notInclude(page, "127.0.0.1:")
      for (const client of ["Claude Code", "VS Code", "Cursor", "Inspector", "ChatGPT"]) assert.include(shown, client)
    })
  )

  it.effect("name commands and flags that exist", () =>
    Effect.gen(function* () {
      const pages = yield* Effect.forEach(entries, ({ path }) => pageAt(path))
      const blocks = [...pages.join().matchAll(/<pre[^>]*>(.*?)<\/pre>/gs)].map(([, block]) => visible(block!, "\n"))
      const lines = blocks.flatMap((block) => block.replaceAll(/\\\n/g, "").split("\n"))
      const typed = lines.flatMap((line) => /^(npx service-admin|npm run -s bridge --) ([a-z-]+)(.*)$/.exec(line) ?? [])
      assert.isAbove(typed.length, 4 * 20)
      for (let next = 0; next < typed.length; next += 4) {
        const [program, command, flags] = typed.slice(next + 1, next + 4)
        const code = program === "npx service-admin" ? sourceOf(command!) : read("cli/commands/bridge.ts")
        assert.include(code, `"${command}"`)
        const known = code + read("cli/support/Flags.ts")
        for (const [, flag] of flags!.split("#")[0]!.matchAll(/ --([a-z-]+)/g)) {
          assert.include([known, '"json" "help"'].join(), `"${flag}"`, command)
        }
      }
    })
  )

  it.effect("label the mobile boundary and say what is out of scope", () =>
    Effect.gen(function* () {
      assert.include(visible(yield* pageAt("/docs/protocol")), "local 0.0.4 proposal")
      assert.include(visible(yield* pageAt("/docs/endpoints")), "local 0.0.4 proposal")
      assert.isNotEmpty(visible(part(yield* pageAt("/docs/specification"), "16-what-is-out-of-scope")))
    })
  )

  it.effect("contain no token, no secret and nothing loaded from elsewhere", () =>
    Effect.gen(function* () {
      for (const path of ["/docs", ...entries.map((entry) => entry.path)]) {
        const page = yield* pageAt(path)
        const markup = page.replace(/<script type="module">.*?<\/script>/s, "").replace(/<style>.*?<\/style>/s, "")
        // Examples are tokens of zeros.
        assert.isUndefined(findSecret(markup), path)
        for (const [name, value] of Object.entries(environment))
          if (name.includes("SECRET")) assert.notInclude(page, value)
        assert.notMatch(markup, /<(script|style|img|iframe|object|embed)\b|<[^>]+ (style|on\w+)="|href="javascript:/i)
        const leads = path === "/docs/start" ? /^(?:[/#]|https:)/ : /^[/#]/
        for (const [, target] of markup.matchAll(/href="([^"]*)"/g)) assert.match(target!, leads)
        for (const [, target] of markup.matchAll(/(?:src|action)="([^"]*)"/g)) assert.match(target!, /^[/#]/)
      }
    })
  )

  it.effect(
    "have no broken link, no broken anchor and no duplicate id, and the search leads to sections that exist",
    () =>
      Effect.gen(function* () {
        const ids = new Map<string, ReadonlySet<string>>()
        const links: Array<readonly [from: string, to: string]> = []
        for (const path of ["/docs", ...entries.map((entry) => entry.path)]) {
          const page = yield* pageAt(path)
          const all = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!)
          assert.strictEqual(new Set(all).size, all.length, path)
          ids.set(path, new Set(all))
          for (const [, to] of page.matchAll(/<a [^>]*href="([^"]+)"/g)) links.push([path, to!])
        }
        const [, moved = ""] = /^const moved = (\{[^}]*\})/m.exec(docsScript)!
        for (const to of Object.values(runInNewContext(`(${moved})`) as Readonly<Record<string, string>>))
          links.push(["an earlier address", `/docs/${to}`])
        const index: ReadonlyArray<{ readonly path: string; readonly sections: ReadonlyArray<readonly [string]> }> =
          JSON.parse(yield* pageAt("/docs/search.json"))
        assert.sameMembers(
          index.map(({ path }) => path),
          entries.map(({ path }) => path)
        )
        for (const { path, sections: found } of index) {
          assert.isNotEmpty(found, path)
          for (const [id] of found) if (id !== "") links.push(["/docs/search.json", `${path}#${id}`])
        }
        assert.includeDeepMembers(links, [["/docs/troubleshooting", "/docs/run#backup-and-restore"]])
        const others = new Set(["/", "/openapi.json", ...examples.map(({ path }) => path)])
        for (const [from, to] of links) {
          const [path, id] = to.startsWith("#") ? [from, to.slice(1)] : (to.split("#") as [string, string?])
          if (others.has(path) || to.startsWith("https:")) continue
          assert.isTrue(ids.has(path), `${from} links to ${to}`)
          if (id !== undefined) assert.isTrue(ids.get(path)!.has(decodeURIComponent(id)), `${from} links to ${to}`)
        }
      })
  )

  it.effect("are each smaller than 256 KiB and list their sections, of more than 60 only those of level two", () =>
    Effect.gen(function* () {
      const lengths: Array<number> = []
      for (const { path } of entries) {
        const page = yield* pageAt(path)
        assert.isBelow(Buffer.byteLength(page), 256 * 1024, path)
        const levels = [...page.matchAll(/<h([23]) id="/g)].map(([, level]) => level)
        const [contents = ""] = /<nav id="toc".*?<\/nav>/s.exec(page) ?? []
        const listed = [...contents.matchAll(/<li( class="inner")?/g)].map(([, inner]) => (inner ? "3" : "2"))
        assert.deepStrictEqual(listed, levels.length > 60 ? levels.filter((level) => level === "2") : levels, path)
        lengths.push(levels.length)
      }
      assert.isAbove(Math.max(...lengths), 60)
    })
  )
})

layer(Service.layer)("/", (it) => {
  it.effect("links to the documentation", () =>
    Effect.gen(function* () {
      const { text } = yield* get("/")
      assert.include(text, '<a class="button primary" href="/docs">')
      assert.include(visible(text), "Bridges http://127.0.0.1:8787/bridge/v1 Agents http://127.0.0.1:8787/mcp")
      assert.isBelow(text.length, 8 * 1024)
    })
  )
})

layer(Service.layer)("a page", (it) => {
  for (const path of ["/", "/docs", "/docs/run", "/docs/search.json"]) {
    it.effect(`${path} answers 304 to a client that has it`, () =>
      Effect.gen(function* () {
        const first = yield* get(path)
        const etag = first.headers.get("etag")!
        assert.strictEqual(first.headers.get("cache-control"), "public, max-age=300")
        for (const names of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
          const again = yield* get(path, { "if-none-match": names })
          assert.deepStrictEqual([again.status, again.text, again.headers.get("etag")], [304, "", etag])
        }
        for (const names of ['"other"', `${'"other", '.repeat(200)}${etag}`]) {
          assert.strictEqual((yield* get(path, { "if-none-match": names })).status, 200)
        }
      })
    )
  }
})
