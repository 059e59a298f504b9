/** docs/protocol.md is compared with the OpenAPI document and the code, and its examples are run against the service. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Duration, Effect, Redacted, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { Api } from "../../src/wire/Api.ts"
import { reactionTo } from "../../src/wire/bridges/Reactions.ts"
import { sign } from "../../src/client/Crypto.ts"
import { codes as enrollmentCodes, refuse as refuseEnrollment } from "../../src/wire/bridges/EnrollmentApi.ts"
import { codes as continuityCodes } from "../../src/agents/continuity/Errors.ts"
import { codes as documentCodes } from "../../src/agents/documents/Errors.ts"
import { codes as mcpCodes, refuse as refuseMcp } from "../../src/agents/mcp/Errors.ts"
import { lists } from "../../src/agents/mcp/ToolList.ts"
import { type ToolName, tools } from "../../src/agents/mcp/Tools.ts"
import {
  Device,
  RegisterDevice,
  codes as mobileCodes,
  refuse as refuseMobile
} from "../../src/wire/mobile/MobileApi.ts"
import { codes as oauthCodes, type OAuthCode, refuse as refuseOAuth } from "../../src/signin/oauth/Errors.ts"
import { refuse as refusePasskey } from "../../src/signin/passkeys/Errors.ts"
import { payload } from "../../src/push/delivery/Payload.ts"
import {
  type NotificationKind,
  notificationKindNames,
  notificationKinds,
  Preferences,
  priorities
} from "../../src/wire/mobile/Notifications.ts"
import { sharedTable } from "../../src/wire/Errors.ts"
import type { Refusal } from "../../src/wire/Refusal.ts"
import { ofRole, scopes } from "../../src/wire/Scopes.ts"
import { refuse as refuseKeys } from "../../src/wire/bridges/KeysApi.ts"
import { b64, issueCredential, makeProject } from "../support/bridges/Bridge.ts"
import { codesIn } from "../support/bridges/Codes.ts"
import { type Endpoint, endpoints as proven, proofFor } from "../support/bridges/signatures/DpopProofs.ts"
import { send } from "../support/network/Http.ts"
import { blocks, read, rows, sections } from "../support/run/Markdown.ts"
import { Service } from "../support/service/Service.ts"

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: ReadonlyArray<string>
}

/** The field names of a schema; optional ones end in `?`. */
const fieldsOf = (schema: Schema.Constraint) => {
  const { properties = {}, required = [] } = Schema.toJsonSchemaDocument(schema).schema as ObjectSchema
  return Object.keys(properties).map((field) => (required.includes(field) ? field : `${field}?`))
}

/** Field names that a tool's sentence about failures contains besides codes. */
const fieldNames = new Set(["depends_on"])

const text = read("docs/protocol.md")
const endpoints = [...sections(text, 3)].filter(([heading]) => /^[A-Z]+ \//.test(heading))

const declared = Object.entries(OpenApi.fromApi(Api).paths).flatMap(([path, methods]) =>
  Object.entries(methods as Record<string, OpenApi.OpenAPISpecOperation>).map(([method, { responses }]) => ({
    endpoint: `${method.toUpperCase()} ${path}`,
    answers: Object.entries(responses)
      .flatMap(([status, response]) => {
        const codes = codesIn(response)
        return codes.length === 0 ? [`${status} `] : codes.map((code) => `${status} ${code}`)
      })
      .toSorted()
  }))
)

describe("docs/protocol.md", () => {
  it("lists exactly the declared endpoints", () => {
    assert.sameMembers(
      endpoints.map(([heading]) => heading),
      declared.map(({ endpoint }) => endpoint)
    )
  })

  it.each(declared)("lists exactly the statuses and codes of $endpoint, each once", ({ answers, endpoint }) => {
    const documented = rows(new Map(endpoints).get(endpoint)!).map(({ Code, Status }) => `${Status} ${Code}`)
    assert.deepStrictEqual(documented.toSorted(), answers)
  })

  it("lists exactly the codes, with status, message and the Bridge's reaction", () => {
    const everywhere = ["404 not_found", "405 method_not_allowed", "500 internal_error"]
    const answered = new Set([...declared.flatMap(({ answers }) => answers), ...everywhere])
    const documented = rows(sections(text, 2).get("Codes")!)
    assert.sameMembers(
      documented.map(({ Code, Status }) => `${Status} ${Code}`),
      [...answered].filter((answer) => !answer.endsWith(" "))
    )
    for (const { "A Bridge": reaction, Code, Message } of documented) {
      const refusal = refusalOf(Code!)
      assert.deepStrictEqual([Message, reaction], [refusal.message, reactionTo(refusal) ?? ""], Code)
    }
  })

  it("has the same lifetimes as docs/reference.md", () => {
    const defaults = new Map(rows(read("docs/reference.md")).map(({ Default, Name }) => [Name, Default]))
    const documented = rows(sections(text, 2).get("Lifetimes")!).filter(({ Setting }) =>
      Setting!.startsWith("SERVICE_")
    )
    assert.lengthOf(documented, 10)
    for (const { Default, Setting } of documented) {
      const seconds = Duration.toSeconds(Duration.fromInputUnsafe(Default as Duration.Input))
      assert.strictEqual(String(seconds), defaults.get(Setting), Setting)
    }
  })

  it.effect("signs its examples with the keys it gives", () =>
    Effect.gen(function* () {
      const signed = examples.filter(({ body }) => body.includes("signature_b64"))
      assert.lengthOf(signed, 2)
      for (const { body } of signed) {
        const shown = JSON.parse(body)
        for (const [name, signature] of yield* signatures(shown, Buffer.from(shown.nonce_b64, "base64url")))
          assert.strictEqual(shown[name], b64(signature), name)
      }
    })
  )
})

describe("the part of docs/protocol.md about passkeys", () => {
  it("lists the codes that a script gets, with their statuses", () => {
    const documented = rows(sections(text, 2).get("Passkeys")!).filter(({ Code }) => Code !== undefined)
    const http = read("src/signin/passkeys/Http.ts") + read("src/platform/edge/limits/RateLimit.ts")
    const raised = [...http.matchAll(/refuse\("(\w+)"/g)].map(([, code]) => code!)
    const ofOptions = [
      "token_session_required",
      "person_key_limit",
      "person_key_unavailable",
      "bridge_persistence_error"
    ]
    assert.sameMembers(
      documented.map(({ Code }) => Code),
      [...new Set([...raised, ...ofOptions])]
    )
    const shared: Readonly<Record<string, readonly [number, string, unknown?]>> = sharedTable
    for (const { Code, Status } of documented) {
      const status = shared[Code!]?.[0] ?? refusePasskey(Code as Parameters<typeof refusePasskey>[0]).status
      assert.strictEqual(Status, String(status), Code)
    }
  })
})

describe("the OAuth part of docs/protocol.md", () => {
  const part = sections(text, 2).get("OAuth")!
  const addresses = rows(part).filter(({ Address }) => Address !== undefined)

  it("lists exactly the mounted addresses", () => {
    const sources = ["Http", "consent/Http"].map((name) => read(`src/signin/oauth/${name}.ts`)).join("\n")
    const mounted = [...sources.matchAll(/[(,]\s*"(\/[\w./-]+)"/g)].map(([, path]) => path!)
    assert.sameMembers([...new Set(addresses.map(({ Address }) => Address))], [...new Set(mounted)])
  })

  it("lists exactly the errors, with their statuses", () => {
    const documented = rows(sections(part, 3).get("Errors of OAuth")!)
    assert.sameMembers(
      documented.map((row) => row["Error"]),
      [...oauthCodes]
    )
    for (const { Error, Status } of documented)
      assert.strictEqual(Status, String(refuseOAuth(Error as OAuthCode).status), Error)
  })

  it("lists every scope with its roles", () => {
    const documented = rows(sections(part, 3).get("Scopes")!)
    assert.deepStrictEqual(
      documented.map(({ Scope }) => Scope),
      [...scopes]
    )
    for (const role of ["reader", "contributor"] as const) {
      const column = role === "reader" ? "Reader" : "Contributor"
      assert.deepStrictEqual(
        documented.filter((row) => row[column] === "yes").map(({ Scope }) => Scope),
        [...scopes].filter((scope) => ofRole(role).includes(scope))
      )
    }
  })
})

describe("the MCP part of docs/protocol.md", () => {
  const part = sections(sections(text, 2).get("MCP")!, 3)
  const documented = rows(part.get("Tools")!).filter(({ Tool }) => Tool !== undefined)
  const codes = rows(part.get("Failures of tools")!).map(({ Code }) => Code!)

  it("lists exactly the tools, with scopes, input and output", () => {
    assert.sameDeepMembers(
      documented,
      lists.contributor.map(({ inputSchema, name }) => {
        const { needs, output, writes } = tools[name as ToolName]
        const { properties = {}, required = [] } = inputSchema as unknown as ObjectSchema
        const inputs = Object.keys(properties).filter((field) => !(writes && field === "write_context"))
        return {
          Tool: name,
          Needs: needs.join(" "),
          Writes: writes ? "yes" : "",
          Input: inputs.map((field) => (required.includes(field) ? field : `${field}?`)).join(", "),
          Output: fieldsOf(output).join(", ")
        }
      })
    )
  })

  it("lists every code that a tool description names", () => {
    const named = lists.contributor.flatMap(({ description }) => {
      const [, fails = ""] = /Fails with (.*)$/.exec(description) ?? []
      return (
        fails.replace("_required or _mismatch", "_required, write_context_mismatch").match(/[a-z]+(?:_[a-z]+)+/g) ?? []
      )
    })
    assert.isAbove(named.length, 20)
    assert.includeMembers(
      codes,
      [...new Set(named)].filter((name) => !fieldNames.has(name))
    )
  })

  it("lists no code that is never used", () => {
    assert.includeMembers([...continuityCodes, ...documentCodes, ...mcpCodes], codes)
    const before = rows(part.get("What /mcp answers before the protocol")!)
    for (const { Code, Status } of before.filter(({ Code }) => Code !== ""))
      assert.strictEqual(Status, String(refuseMcp(Code as (typeof mcpCodes)[number]).status), Code)
  })
})

describe("the mobile part of docs/protocol.md", () => {
  const part = sections(sections(text, 2).get("Mobile")!, 3)
  const [registration, subscription, device, notification] = blocks(
    text.slice(text.indexOf("\n## Mobile\n")),
    "json"
  ).map((block) => JSON.parse(block))
  const decode = <A, I>(schema: Schema.Codec<A, I>, given: unknown) =>
    Schema.decodeUnknownSync(schema)(given, { onExcessProperty: "error" })

  it("lists exactly the kinds, with their defaults", () => {
    assert.deepStrictEqual(
      new Map(
        rows(part.get("Kinds")!).map((row) => [row["Kind"], [row["Default"], row["Priority"], row["Expires after"]]])
      ),
      new Map(
        ["task.needs_decision", "task.blocked", ...notificationKindNames].map((name) => {
          const { byDefault, lasts, optional, priority } = notificationKinds[name as NotificationKind]
          const on = optional ? (byDefault ? "on" : "off") : "on, always"
          return [name, [on, priority, `${Duration.toHours(lasts)} h`]]
        })
      )
    )
  })

  it("lists every field of preferences and every priority", () => {
    const documented = rows(part.get("Preferences")!)
    assert.deepStrictEqual(
      documented.map(({ Field }) => Field),
      Object.keys(Preferences.fields)
    )
    for (const priority of priorities) assert.include(part.get("Preferences"), `\`${priority}\``)
  })

  it("shows a registration and a device that match the contract", () => {
    for (const one of [registration, subscription]) {
      assert.strictEqual(decode(RegisterDevice, one).push.provider, one.push.provider)
    }
    assert.strictEqual(decode(Device, device).push.provider, "apns")
    assert.strictEqual(registration.push.topic, device.push.topic)
    assert.deepStrictEqual(Object.keys(device), fieldsOf(Device))
  })

  it("shows the payload that is sent", () => {
    const notice = { delivery_id: notification.n, kind: notification.k, project_id: "", reference: notification.r }
    assert.deepStrictEqual(JSON.parse(payload(notice, notification.aps["thread-id"])), notification)
  })
})

layer(Service.layer)("the examples of docs/protocol.md", (it) => {
  it.effect("are what the service answers, in order", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      const { credential } = yield* issueCredential(service, project_id)
      /** Value on the page -> value in this run. */
      const real = new Map([
        [/sbe_\w+/.exec(text)![0], credential],
        [/"project_id": "(.*)"/.exec(text)![1]!, project_id]
      ])
      const inThisRun = (example: string) =>
        [...real].reduce((so, [name, value]) => so.replaceAll(name, value), example)

      let [isHeld, isReplaced] = [false, false]
      for (let next = 0; next < examples.length; next += 2) {
        const [request, expected] = [examples[next]!, examples[next + 1]!]
        const [method, path] = request.first.split(" ")
        if (request.body.includes("signature_b64")) {
          const shown = JSON.parse(request.body)
          for (const [name, signature] of yield* signatures(
            shown,
            Buffer.from(real.get(shown.nonce_b64)!, "base64url")
          ))
            real.set(shown[name], b64(signature))
        }
        const headers = Object.fromEntries(
          request.headers.map(([name, value]) => [name.toLowerCase(), inThisRun(value)])
        )
        const endpoint = Object.entries(proven).find(([, proved]) => proved[1] === path)?.[0] as Endpoint | undefined
        // From the first proof on every request needs one.
        isHeld ||= headers["dpop"] !== undefined
        if (isHeld && endpoint !== undefined)
          headers["dpop"] = yield* proofFor(keysOf(isReplaced ? 1 : 0), endpoint, headers["authorization"]!.slice(7))
        isReplaced ||= endpoint === "confirmKey"
        const answer = yield* send(service.url + path, {
          method: method!,
          headers,
          body: request.body === "" ? undefined : inThisRun(request.body)
        })
        assert.strictEqual(answer.status, Number.parseInt(expected.first), answer.text)
        for (const [name, value] of expected.headers) assert.strictEqual(answer.headers.get(name), value, name)
        learn(real, JSON.parse(expected.body), answer.body)
      }
    })
  )

  it.effect('include addresses under "Other addresses" that answer 200', () =>
    Effect.gen(function* () {
      const service = yield* Service
      for (const { Address } of rows(sections(text, 2).get("Other addresses")!)) {
        const answer = yield* send(service.url + Address!.replace("GET ", ""), { method: "GET" })
        assert.strictEqual(answer.status, 200, Address)
      }
    })
  )
})

interface Example {
  /** The request line or the status line. */
  readonly first: string
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: string
}

/** Requests and answers, alternating. */
const examples: ReadonlyArray<Example> = blocks(text, "http").map((block) => {
  const [head = "", ...body] = block.split("\n\n")
  const [first = "", ...headers] = head.trim().split("\n")
  return {
    first,
    headers: headers.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const),
    body: body.join("\n\n").trim()
  }
})

/** The enrolled key of the page, and the one that follows. */
const seeds = [...text.matchAll(/the seed `(.*)`/g)].map(([, seed]) => Buffer.from(seed!, "base64url"))
const [privateKey, nextKey] = seeds.map((seed) => Redacted.make(new Uint8Array(seed))) as [Key, Key]
type Key = Redacted.Redacted<Uint8Array>
const publicKeys = [...text.matchAll(/"public_key_b64": "(.*)"/g)].map(([, key]) => Buffer.from(key!, "base64url"))
const keysOf = (which: 0 | 1) => ({ publicKey: publicKeys[which]!, privateKey: [privateKey, nextKey][which]! })

/** The signatures that belong into a body with this nonce, by the name of their field. */
const signatures = Effect.fnUntraced(function* (body: object, nonce: Uint8Array) {
  if (!("predecessor_signature_b64" in body)) return [["signature_b64", yield* sign(privateKey, nonce)]] as const
  return [
    ["signature_b64", yield* sign(nextKey, nonce)],
    ["predecessor_signature_b64", yield* sign(privateKey, Buffer.concat([nonce, publicKeys[1]!]))]
  ] as const
})

/** Ids, tokens, nonces and times differ in each run, but keep their form, and an id or secret that recurs on the page recurs here. */
const varies = [
  /^[0-9a-f-]{36}$/,
  /^sb[et]_[0-9A-Za-z]{49}$/,
  /^[\w-]{43}$/,
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
]

const learn = (real: Map<string, string>, documented: unknown, actual: unknown): void => {
  if (typeof documented === "object" && documented !== null && typeof actual === "object" && actual !== null) {
    assert.deepStrictEqual(Object.keys(actual), Object.keys(documented))
    for (const [key, value] of Object.entries(documented)) learn(real, value, actual[key as never])
    return
  }
  const form = varies.find((one) => typeof documented === "string" && one.test(documented))
  if (form === undefined || typeof documented !== "string") return assert.strictEqual(actual, documented)
  assert.match(String(actual), form)
  if (documented.endsWith("Z")) return
  assert.strictEqual(actual, real.get(documented) ?? actual)
  real.set(documented, String(actual))
}

const refusalOf = (code: string) => {
  const refuse: (code: never) => Refusal = enrollmentCodes.includes(code as never)
    ? refuseEnrollment
    : mobileCodes.includes(code as never)
      ? refuseMobile
      : refuseKeys
  return refuse(code as never)
}
