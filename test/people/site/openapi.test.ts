/** What /openapi.json adds to the declared contract. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { spawnSync } from "node:child_process"
import { copyFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { examples, openApiDocument } from "../../../src/people/site/OpenApiDocument.ts"
import { operatorPaths } from "../../../src/operator/tokens/Paths.ts"
import { oauthPaths } from "../../../src/signin/oauth/metadata/Paths.ts"
import { Api } from "../../../src/wire/Api.ts"
import { read } from "../../support/run/Markdown.ts"
import { packageRoot } from "../../support/run/Root.ts"
import { temporaryFolder } from "../../support/database/PostgresUser.ts"
import { send } from "../../support/network/Http.ts"
import { Service } from "../../support/service/Service.ts"

const options = {
  base_url: "https://bridge.test",
  issuer: "https://bridge.test",
  resource: "https://bridge.test/mcp",
  registration: true,
  revocation: true,
  client_documents: true
}
const document: any = openApiDocument(options)
const operations: ReadonlyArray<any> = Object.values(document.paths).flatMap((methods) =>
  Object.values(methods as object)
)

/** What the linter prints; it reads the rules beside the document. */
const linted = (folder: string) => {
  for (const rules of ["redocly.yaml", ".redocly.lint-ignore.yaml"])
    copyFileSync(join(packageRoot, rules), join(folder, rules))
  writeFileSync(join(folder, "openapi.json"), JSON.stringify(document, null, 1))
  const linter = join(packageRoot, "node_modules/@redocly/cli/bin/cli.js")
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" }
  return spawnSync(process.execPath, [linter, "lint", "--format=json", "openapi.json"], {
    cwd: folder,
    env,
    encoding: "utf8"
  })
}

/** JSON without blanks, so that it can be found whatever its indentation. */
const compact = (text: string) => text.replaceAll(/\s+/g, "")

describe("the OpenAPI document", () => {
  it("says where the service is, and what each group of endpoints is", () => {
    assert.deepStrictEqual(document.servers, [{ url: options.base_url }])
    const described = new Set(document.tags.map(({ name }: { readonly name: string }) => name))
    assert.deepStrictEqual([...described].toSorted(), [...new Set(operations.flatMap(({ tags }) => tags))].toSorted())
  })

  it("names schemes and schemas as OpenAPI 3.1 allows", () => {
    for (const part of Object.values<object>(document.components))
      for (const name of Object.keys(part)) assert.match(name, /^[a-zA-Z0-9._-]+$/)
  })

  it("says of each operation in a line what it does, and below what its caller has to know", () => {
    for (const { description, operationId, summary } of operations) {
      assert.match(summary, /^[A-Z].*\.$/, operationId)
      assert.match(description, /^[A-Z].*\.$/, operationId)
    }
  })

  it.effect("is clean under a strict linter", () =>
    Effect.gen(function* () {
      const { status, stderr, stdout } = linted(yield* temporaryFolder)
      assert.strictEqual(status, 0, stderr)
      const { problems, totals } = JSON.parse(stdout)
      assert.deepStrictEqual(problems, [])
      // As many as .redocly.lint-ignore.yaml explains: none of them is out of date.
      assert.deepStrictEqual(totals, { errors: 0, warnings: 0, ignored: 4 })
    })
  )

  it("describes each parameter", () => {
    for (const { operationId, parameters = [] } of operations)
      for (const { description, name } of parameters) assert.match(description, /^\w/, `${operationId} ${name}`)
  })

  it("describes each pattern in words", () => {
    const undescribed = (value: unknown, path: string): ReadonlyArray<string> => {
      if (typeof value !== "object" || value === null) return []
      const { description, format, pattern } = value as Readonly<Record<string, unknown>>
      const isRaw = typeof pattern === "string" && description === undefined && format === undefined
      return [
        ...(isRaw ? [path] : []),
        ...Object.entries(value).flatMap(([name, part]) => undescribed(part, `${path}/${name}`))
      ]
    }
    assert.deepStrictEqual(undescribed({ ...document.components, ...document.paths }, ""), [])
  })

  it("leaves the declared contract as it is", () => {
    const declared: any = OpenApi.fromApi(Api)
    const { operator_token: added, ...securitySchemes } = document.components.securitySchemes
    assert.strictEqual(added.scheme, "bearer")
    assert.deepStrictEqual({ ...document.components, securitySchemes }, declared.components)
    for (const [path, methods] of Object.entries<any>(declared.paths))
      for (const [method, { parameters, responses }] of Object.entries<any>(methods)) {
        const served = document.paths[path][method]
        assert.deepStrictEqual(
          served.parameters.map((parameter: any) => ({ ...parameter, description: undefined })),
          parameters.map((parameter: any) => ({ ...parameter, description: undefined }))
        )
        assert.deepStrictEqual(Object.keys(served.responses), Object.keys(responses))
      }
  })

  it("has an example for every JSON body of a request or a success", () => {
    for (const { operationId, requestBody, responses } of operations) {
      const successes = Object.entries<any>(responses).flatMap(([status, body]) => (status < "300" ? [body] : []))
      for (const body of [requestBody, ...successes]) {
        const json = body?.content?.["application/json"]
        // The answer of /register is the client as it was sent.
        if (json === undefined || operationId === "oauth.register") continue
        assert.isDefined(json.example, operationId)
      }
    }
  })

  it("shows for Bridges what docs/protocol.md shows", () => {
    const page = compact(read("docs/protocol.md"))
    assert.isNotEmpty(examples)
    for (const [operation, { answer, request }] of Object.entries(examples)) {
      if (!/^(enrollment|rotation|keys)\./.test(operation)) continue
      for (const shown of [request, answer]) if (shown) assert.include(page, compact(JSON.stringify(shown)), operation)
    }
  })
})

layer(Service.layer)("the OpenAPI document of a service", (it) => {
  it.effect("names only endpoints that are there", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { body } = yield* send(`${url}/openapi.json`, { method: "GET" })
      const served = Object.keys(body.paths)
      for (const [path, methods] of Object.entries({ ...oauthPaths(options), ...operatorPaths })) {
        const method = Object.keys(methods!)[0]!
        const { status } = yield* send(url + path, { method: method.toUpperCase() })
        assert.strictEqual(served.includes(path), status !== 404, path)
        if (status !== 404) assert.property(body.paths[path][method].responses, String(status), path)
      }
    })
  )
})
