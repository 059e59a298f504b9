/**
 * The means of a hostile project against its neighbours, one row each. It holds contributor tokens, and sends from many
 * addresses: 127.0.0.0/8, and any IPv6 address behind a trusted proxy.
 */
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { mint } from "../../../../../src/platform/crypto/Tokens.ts"
import { type Ask, type Line, outcomeOf } from "./Line.ts"

/** What Attacker.ts prepared for the hostile project. */
export interface Given {
  readonly url: string
  /** The address whose X-Forwarded-For counts. */
  readonly proxy: string
  readonly tokens: ReadonlyArray<string>
  readonly write_context: object
  readonly client_id: string
  /** 333 characters without spaces, which each of its entries contains. */
  readonly dense: string
  /** How many tasks it has. Each waits for the 32 before it. */
  readonly tasks: number
  /** Milliseconds that each client rests between its requests. */
  readonly pause: number
}

/** The id of its task `n`, from 1. */
export const taskId = (n: number) => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`

/** One client of a means: sends its next request, and returns the outcome of each message in it. */
type Turn = (n: number) => Promise<ReadonlyArray<string>>

interface Means {
  /** Clients that send at the same time; each waits for its answer. */
  readonly clients: number
  readonly client: (given: Given, line: Line, index: number) => Turn
}

const character = () => String.fromCodePoint(0x4e00 + Math.floor(Math.random() * 20_000))
const unspaced = (characters: number) => Array.from({ length: characters }, character).join("")

/** A client of /mcp. Revision 2025-03-26 allows batches. */
const agent = ({ tokens, write_context }: Given, line: Line, index: number) => {
  const source = `127.0.1.${1 + (index % 200)}`
  const headers = {
    authorization: `Bearer ${tokens[index % tokens.length]}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2025-03-26"
  }
  const raw = (body: string, more: Partial<Ask> = {}) =>
    line({ method: "POST", path: "/mcp", headers, source, body, ...more })
  const message = (name: string, given: object, id = 1) => {
    const writes = name === "memory_add" || name === "task_update"
    return {
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name, arguments: writes ? { write_context, ...given } : given }
    }
  }
  return {
    raw,
    call: (name: string, given: object) => raw(JSON.stringify(message(name, given))),
    batch: (name: string, given: (n: number) => object) =>
      raw(JSON.stringify(Array.from({ length: 50 }, (_, n) => message(name, given(n), n))))
  }
}

const outcomes = async (asked: Promise<{ readonly status: number; readonly text: string }>) => outcomeOf(await asked)

/** The structured content of a single call's answer. */
const outputOf = ({ text }: { readonly text: string }) => {
  const json = text.startsWith("{") ? text : /^data: (.*)$/m.exec(text)?.[1]
  return json === undefined ? undefined : JSON.parse(json).result?.structuredContent
}

/** Well-formed tokens that nobody holds, one after the other at each endpoint that takes one. */
const guesses = (line: Line, from: (n: number) => Pick<Ask, "source" | "headers">): Turn => {
  const endpoints = [
    ["POST", "/mcp", "spt"],
    ["GET", "/bridge/v1/tokens/self", "sbt"],
    ["GET", "/bridge/v1/mobile/devices/8d5f0d0e-7d53-7e39-a8b5-3a4e1e0d8c11", "sat"]
  ] as const
  return (n) => {
    const [method, path, kind] = endpoints[n % endpoints.length]!
    const { headers, source } = from(n)
    const authorization = `Bearer ${Redacted.value(Effect.runSync(mint(kind)))}`
    return outcomes(line({ method, path, source, headers: { ...headers, authorization } }))
  }
}

/** The largest body that /mcp reads, of shapes that take much more memory when they are parsed. */
const largest = (unit: string) => {
  const units = Math.floor((2 ** 20 - 2) / (Buffer.byteLength(unit) + 1))
  return `[${Array.from({ length: units }, () => unit).join()}]`
}
const largeBodies = ["[{}]", "{}", '{"99":0}', `"${unspaced(20)}"`].map(largest)

export const means: Readonly<Record<string, Means>> = {
  /** Entries whose every one to three characters become a posting. */
  "dense-write": {
    clients: 4,
    client: (given, line, index) => {
      const { call } = agent(given, line, index)
      return () => outcomes(call("memory_add", { kind: "note", body: unspaced(5460) }))
    }
  },
  "dense-write-batch": {
    clients: 2,
    client: (given, line, index) => {
      const { batch } = agent(given, line, index)
      return () => outcomes(batch("memory_add", () => ({ kind: "note", body: unspaced(340) })))
    }
  },
  /** A text on which an expression that backtracks takes quadratic time. */
  "slow-expression": {
    clients: 2,
    client: (given, line, index) => {
      const { call } = agent(given, line, index)
      const body = `${"a".repeat(16_380)}ф`
      return () => outcomes(call("memory_add", { kind: "note", body }))
    }
  },
  "dense-search": {
    clients: 8,
    client: (given, line, index) => {
      const { call } = agent(given, line, index)
      return () => outcomes(call("memory_search", { query: given.dense, limit: 50 }))
    }
  },
  "dense-search-batch": {
    clients: 3,
    client: (given, line, index) => {
      const { batch } = agent(given, line, index)
      return () => outcomes(batch("memory_search", () => ({ query: given.dense, limit: 50 })))
    }
  },
  /** Dependencies whose cycle check walks all tasks of the project. */
  "task-cycles": {
    clients: 4,
    client: (given, line, index) => {
      const { call } = agent(given, line, index)
      const at = given.tasks - index
      const below = Array.from({ length: 40 }, (_, back) => taskId(at - 1 - back))
      let version = 1
      return async (n) => {
        const depends_on = below.slice(n % 8, (n % 8) + 32)
        const answer = await call("task_update", { id: taskId(at), expected_version: version, depends_on })
        version = outputOf(answer)?.task.version ?? version
        const stale = /current_version\\*":(\d+)/.exec(answer.text)
        if (stale !== null) version = Number(stale[1])
        return outcomeOf(answer)
      }
    }
  },
  /** Pages of lists whose filter matches nothing or whose position was made up. */
  cursors: {
    clients: 4,
    client: (given, line, index) => {
      const { call } = agent(given, line, index)
      const made = (cursor: string, keys: ReadonlyArray<unknown>) => {
        const { f, v } = JSON.parse(Buffer.from(cursor, "base64url").toString())
        return Buffer.from(JSON.stringify({ v, k: keys, f })).toString("base64url")
      }
      const positions = ["9999-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z", "2026-02-30T00:00:00.000Z"]
      let cursor: string | undefined
      return async (n) => {
        if (n % 3 === 0) return outcomes(call("task_list", { tag: "none", limit: 100 }))
        if (n % 3 === 1) return outcomes(call("memory_search", { tags: ["none"], limit: 50 }))
        const query = { limit: 100, order: "updated" }
        const answer = await call("task_list", cursor === undefined ? query : { ...query, cursor })
        const next = outputOf(answer)?.next_cursor
        const turn = Math.floor(n / 3) % 4
        cursor = turn < 3 && next !== undefined ? made(next, [positions[turn], taskId(1)]) : undefined
        return outcomeOf(answer)
      }
    }
  },
  "large-contexts": {
    clients: 8,
    client: (given, line, index) => {
      const { call } = agent(given, line, index)
      return () => outcomes(call("continuity_context", { max_bytes: 49_152 }))
    }
  },
  /** Answers of more than a MiB: one result replayed 50 times. */
  "large-answers": {
    clients: 3,
    client: (given, line, index) => {
      const { batch } = agent(given, line, index)
      const entry = { kind: "note", body: "word ".repeat(3200), idempotency_key: `large-answer-${index}` }
      return () => outcomes(batch("memory_add", () => entry))
    }
  },
  /** The page of a task with its receipts, and searches of memory, from eight addresses. */
  console: {
    clients: 8,
    client: ({ dense, tokens, url, write_context }, line, index) => {
      const { origin } = new URL(url)
      const body = new URLSearchParams({ project_token: tokens[index]!, to: "" })
      const signedIn = fetch(`${url}/console/sign-in`, {
        method: "POST",
        redirect: "manual",
        headers: { origin },
        body
      })
      const cookie = signedIn.then(({ headers }) => headers.get("set-cookie")?.split(";")[0] ?? "")
      const home = `/console/${(write_context as { readonly project_id: string }).project_id}`
      const paths = [`${home}/tasks/${taskId(1)}`, `${home}/memory?${new URLSearchParams({ query: dense })}`, home]
      return async (n) => {
        const path = paths[n % paths.length]!
        return outcomes(
          line({ method: "GET", path, source: `127.0.4.${1 + index}`, headers: { cookie: await cookie } })
        )
      }
    }
  },
  "large-bodies": {
    clients: 32,
    client: (given, line, index) => {
      const { raw } = agent(given, line, index)
      return (n) => outcomes(raw(largeBodies[(index + n) % largeBodies.length]!))
    }
  },
  /** A MiB that arrives over four seconds. */
  "slow-bodies": {
    clients: 100,
    client: (given, line, index) => {
      const { raw } = agent(given, line, index)
      return (n) => outcomes(raw(largeBodies[n % largeBodies.length]!, { pieces: 40, pause: 110 }))
    }
  },
  "bad-tokens": {
    clients: 16,
    client: (_, line, index) => guesses(line, () => ({ source: `127.0.2.${1 + (index % 4)}`, headers: {} }))
  },
  /** The same from ever new addresses of one /64. */
  "ipv6-addresses": {
    clients: 16,
    client: ({ proxy }, line) =>
      guesses(line, () => {
        const tail = randomBytes(8).toString("hex").match(/.{4}/g)!.join(":")
        return { source: proxy, headers: { "x-forwarded-for": `2001:db8:0:1:${tail}` } }
      })
  },
  /** Authorization requests, which are stored until they expire. */
  authorize: {
    clients: 8,
    client: ({ client_id }, line, index) => {
      const query = new URLSearchParams({
        response_type: "code",
        client_id,
        redirect_uri: "http://127.0.0.1/callback",
        code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        code_challenge_method: "S256",
        state: "s".repeat(7500)
      })
      return () =>
        outcomes(line({ method: "GET", path: `/authorize?${query}`, source: `127.0.3.${1 + index}`, headers: {} }))
    }
  }
}
