/** The pages at / and /docs agree with the code and reveal no secrets (spec 4.9, 1.6, 9.1, 9.3). */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { OpenApi } from "effect/http-api"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { Api } from "../../../src/wire/Api.ts"
import { findToken, kinds, mint } from "../../../src/platform/crypto/Tokens.ts"
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
  const made = new RegExp(`(command|list)\\("${command}"[^]*?\\n\\}\\)`)
  const file = commandFiles.find((source) => made.test(source)) ?? ""
  const [own = ""] = made.exec(file) ?? []
  const [, constant] = /^ {2}flags: (\w+),$/m.exec(own) ?? []
  return constant === undefined ? own : own + new RegExp(`^const ${constant} = [^]*?\\n\\n`, "m").exec(file)![0]
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

const docs = Effect.map(get("/docs"), ({ text }) => text)
const part = (page: string, id: string) =>
  page.match(new RegExp(`<(section|article) id="${id.replaceAll(".", "\\.")}">.*?</\\1>`, "s"))?.[0] ?? ""

layer(Service.layer)("/docs", (it) => {
  it.effect("has every tool with its description, its scopes and every parameter", () =>
    Effect.gen(function* () {
      const page = yield* docs
      assert.lengthOf(page.match(/<article id="tool-/g)!, Object.keys(tools).length)
      for (const { description, inputSchema, name } of lists.contributor) {
        const shown = visible(part(page, `tool-${name}`))
        for (const word of [name, description, ...tools[name as keyof typeof tools].needs]) assert.include(shown, word)
        for (const field of Object.keys((inputSchema as { readonly properties?: object }).properties ?? {}))
          assert.include(shown, field, name)
      }
    })
  )

  it.effect("has every scope", () =>
    Effect.gen(function* () {
      const shown = visible(part(yield* docs, "tools"))
      for (const scope of scopes) assert.include(shown, scope)
    })
  )

  it.effect("has every endpoint of the OpenAPI document with exactly its codes", () =>
    Effect.gen(function* () {
      const page = yield* docs
      assert.lengthOf(page.match(/<article id="endpoint-/g)!, operations.length)
      for (const { method, operationId, path, responses } of operations) {
        const shown = visible(part(page, `endpoint-${operationId}`))
        assert.include(shown, `${method} ${path}`)
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
      const shown = visible(part(yield* docs, "codes"))
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
      const shown = visible(part(yield* docs, "codes"))
      const fails = lists.contributor.map(({ description }) => description.split("Fails with")[1] ?? "")
      const named = fails.join().match(/\b[a-z]+(_[a-z]+)+\b/g)!
      assert.includeMembers(named, ["task_not_found", "stale_version", "document_not_pinned"])
      for (const code of [...named, "write_context_mismatch"]) if (code !== "depends_on") assert.include(shown, code)
    })
  )

  it.effect("names routes outside the OpenAPI document that exist, and leaves out those that are turned off", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_OAUTH_REVOCATION: "off", SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })
      const page = (yield* send(`${url}/docs`, { method: "GET" })).text
      const rest = visible(page.slice(page.indexOf("MCP, OAuth and other routes"), page.indexOf('id="codes"')))
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

  it.effect("draws the three flows, each with a description in words", () =>
    Effect.gen(function* () {
      const pictures = (yield* docs).match(/<svg.*?<\/svg>/gs)!
      assert.lengthOf(pictures, 3)
      const codes = ["enrollment_proof_invalid", "bridge_rotation_predecessor_expired", "access_denied"]
      for (const [index, picture] of pictures.entries()) {
        assert.include(/<desc.*?<\/desc>/s.exec(picture)![0], codes[index]!)
      }
      const known = operations.flatMap(({ responses }) => Object.values(responses).flatMap(codesIn))
      for (const [, code] of pictures.join().matchAll(/>4\d\d ([a-z]+_[a-z_]+)</g)) assert.include(known, code)
    })
  )

  it.effect("shows the address of this deployment in every snippet", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_BASE_URL: "https://bridge.example.com" })
      const page = (yield* send(`${url}/docs`, { method: "GET" })).text
      const agents = part(page, "agents")
      assert.lengthOf(agents.match(/https:\/\/bridge\.example\.com\/mcp/g)!, 6)
      assert.notInclude(page, "127.0.0.1:")
      for (const client of ["Claude Code", "VS Code", "Cursor", "Inspector", "ChatGPT"]) assert.include(agents, client)
    })
  )

  it.effect("names commands and flags that exist", () =>
    Effect.gen(function* () {
      const blocks = [...(yield* docs).matchAll(/<pre>(.*?)<\/pre>/gs)].map(([, block]) => visible(block!, "\n"))
      const lines = blocks.flatMap((block) => block.replaceAll(/\\\n/g, "").split("\n"))
      const typed = lines.flatMap((line) => /^(npx service-admin|npm run -s bridge --) ([a-z-]+)(.*)$/.exec(line) ?? [])
      assert.isAbove(typed.length, 4 * 12)
      for (let next = 0; next < typed.length; next += 4) {
        const [program, command, flags] = typed.slice(next + 1, next + 4)
        const code = program === "npx service-admin" ? sourceOf(command!) : read("cli/bridge.ts")
        assert.include(code, `"${command}"`)
        const known = code + read("cli/support/Flags.ts")
        for (const [, flag] of flags!.matchAll(/ --([a-z-]+)/g)) assert.include(known, `"${flag}"`, command)
      }
    })
  )

  it.effect("shows patterns for secret scanners, and they match every kind of token", () =>
    Effect.gen(function* () {
      const shown = visible(part(yield* docs, "tokens"))
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

  it.effect("labels the mobile boundary and says what is out of scope", () =>
    Effect.gen(function* () {
      const page = yield* docs
      const phones = visible(part(page, "phones"))
      assert.include(phones, "local 0.0.4 implementation proposal")
      for (const { method, path, tags } of operations) {
        if (tags.includes("mobile")) assert.include(phones, `${method} ${path}`)
      }
      assert.lengthOf(part(page, "scope").match(/<li>/g)!, 8)
    })
  )

  it.effect("contains no token, no secret and nothing loaded from elsewhere", () =>
    Effect.gen(function* () {
      const page = yield* docs
      assert.isUndefined(findToken(page))
      for (const [name, value] of Object.entries(environment))
        if (name.includes("SECRET")) assert.notInclude(page, value)
      assert.notMatch(page, /<(script|img|iframe|link|object|embed)\b|javascript:|@import|url\(|style="|\son\w+=/i)
      for (const [, target] of page.matchAll(/(?:href|src|action)="([^"]*)"/g)) assert.match(target!, /^[/#]/)
    })
  )

  it.effect("has no broken link and no duplicate id", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const page = yield* docs
      const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!)
      assert.strictEqual(new Set(ids).size, ids.length)
      const links = new Set([...page.matchAll(/href="([^"]+)"/g)].map(([, target]) => target!))
      for (const link of links) {
        if (link.startsWith("#")) assert.include(ids, link.slice(1))
        else assert.strictEqual((yield* send(url + link, { method: "GET" })).status, 200, link)
      }
    })
  )

  it.effect("is smaller than 160 KiB", () =>
    Effect.gen(function* () {
      assert.isBelow(Buffer.byteLength(yield* docs), 160 * 1024)
    })
  )
})

layer(Service.layer)("/", (it) => {
  it.effect("links to the documentation", () =>
    Effect.gen(function* () {
      const { text } = yield* get("/")
      assert.include(text, '<a class="button primary" href="/docs">')
      assert.isBelow(text.length, 8 * 1024)
    })
  )
})

layer(Service.layer)("a page", (it) => {
  for (const path of ["/", "/docs"]) {
    it.effect(`${path} answers 304 to a client that has it`, () =>
      Effect.gen(function* () {
        const first = yield* get(path)
        const etag = first.headers.get("etag")!
        assert.strictEqual(first.headers.get("cache-control"), "public, max-age=300")
        for (const names of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
          const again = yield* get(path, { "if-none-match": names })
          assert.deepStrictEqual([again.status, again.text, again.headers.get("etag")], [304, "", etag])
        }
        assert.strictEqual((yield* get(path, { "if-none-match": '"other"' })).status, 200)
      })
    )
  }
})
