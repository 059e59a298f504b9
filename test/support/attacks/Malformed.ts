/**
 * Requests that no client should send: valid ones with something wrong in them, so that many pass the first checks.
 *
 * `spoiled`, `bodyOf` and `headersOf` alter the content of a request; `attempts` also its method, path and framing.
 */
import * as fc from "fast-check"

/** A valid request. Its body is JSON or a form. */
export interface Target {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  readonly json?: object
  readonly form?: Readonly<Record<string, string>>
}

/** Bytes to send, and the answers to wait for. */
export interface Attempt {
  readonly name: string
  readonly bytes: Buffer
  /** One entry per answer: whether it comes without a body. Empty: any answer, on a connection of its own. */
  readonly answers: ReadonlyArray<boolean>
}

const deep = (open: string, close: string, depth: number) => `@${open.repeat(depth)}0${close.repeat(depth)}@`

/** A JSON token between two @ that no JavaScript value serialises to. */
const tokens = ["@1e999@", "@-1e999@", "@9007199254740993@", "@1e308@", "@-0@", "@0.1e-400@", "@01@", "@NaN@"]

export const hostile: fc.Arbitrary<unknown> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 300 }),
  fc.constantFrom("", "\0", "\ud800", "__proto__", "constructor", "'; drop table project; --", "\u0085", "%00"),
  fc.constantFrom(
    "a\0b",
    "\udc00\ud800",
    "\u202e",
    "\u001b[2J",
    "a\r\nset-cookie: x",
    "👩‍👩‍👧‍👧".repeat(20),
    "x".repeat(9000)
  ),
  fc.constantFrom("00000000-0000-0000-0000-000000000000", "2026-11-21T00:00:00Z", "+275760-09-13T00:00:00.001Z"),
  fc.constantFrom(0, -1, 1e308, 2 ** 53 + 1, 0.1, true, false, null, [], {}, [null], { $ne: 1 }, [[]], ["x", 1]),
  fc.constantFrom(...tokens, deep("[", "]", 60), deep('{"a":', "}", 60)),
  fc.uuid(),
  fc.base64String({ maxLength: 120 })
)

const text = (value: unknown) =>
  JSON.stringify(value).replaceAll(/"@((?:[^"@]|\\")*)@"/g, (_, raw) => JSON.parse(`"${raw}"`))

const pathsIn = (value: unknown): ReadonlyArray<ReadonlyArray<string>> =>
  typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([name, member]) => [[name], ...pathsIn(member).map((path) => [name, ...path])])
    : []

/** A valid body with some fields altered, added or removed at any depth. */
export const spoiled = (good: object) => {
  const change = fc.record({
    path: fc.constantFrom(...pathsIn(good), ["x"], ["__proto__"]),
    how: fc.constantFrom("spoiled", "spoiled", "spoiled", "gone", "added"),
    by: hostile
  })
  return fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) => {
    const body = structuredClone(good)
    for (const { by, how, path } of changes) {
      let inner: any = body
      for (const name of path.slice(0, -1)) inner = inner?.[name]
      if (typeof inner !== "object" || inner === null) continue
      const name = how === "added" ? "__proto__" : path.at(-1)!
      if (how === "gone") delete inner[name]
      else Object.defineProperty(inner, name, { value: by, enumerable: true, configurable: true, writable: true })
    }
    return text(body)
  })
}

export const bodyOf = (good: object): fc.Arbitrary<Uint8Array> => {
  const whole = JSON.stringify(good)
  return fc
    .oneof(
      { weight: 24, arbitrary: spoiled(good) },
      { weight: 1, arbitrary: fc.json({ maxDepth: 8 }) },
      { weight: 1, arbitrary: fc.nat(15_000).map((depth) => "[".repeat(depth)) },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 400 }) },
      { weight: 1, arbitrary: fc.nat(whole.length).map((end) => whole.slice(0, end)) },
      { weight: 1, arbitrary: fc.constant("x".repeat(17_000)) },
      {
        weight: 1,
        arbitrary: fc.constantFrom(`\ufeff${whole}`, `${whole}${whole}`, `[${whole},${whole}]`, `${whole}\0`)
      },
      {
        weight: 1,
        arbitrary: fc.constantFrom("latin1", "utf16le").map((other) => Buffer.from(`${whole}é`, other as never))
      }
    )
    .map((body) => Buffer.from(body as string))
}

/** The form with values altered, removed or repeated. */
const formOf = (good: Readonly<Record<string, string>>): fc.Arbitrary<Uint8Array> => {
  const change = fc.record({
    name: fc.constantFrom(...Object.keys(good), "x", "__proto__"),
    how: fc.constantFrom("spoiled", "spoiled", "gone", "twice"),
    by: hostile.map((value) => (typeof value === "string" ? value.toWellFormed() : String(JSON.stringify(value))))
  })
  const whole = new URLSearchParams(good).toString()
  return fc
    .oneof(
      {
        weight: 8,
        arbitrary: fc.array(change, { minLength: 1, maxLength: 2 }).map((changes) => {
          const form = new URLSearchParams(good)
          for (const { by, how, name } of changes) {
            if (how === "gone") form.delete(name)
            else if (how === "twice") form.append(name, by)
            else form.set(name, by)
          }
          return form.toString()
        })
      },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 400 }) },
      {
        weight: 1,
        arbitrary: fc.constantFrom(`${whole}&%`, `?${whole}`, "&".repeat(9000), `${whole}&x=%ff%00`, "=".repeat(99))
      }
    )
    .map((body) => Buffer.from(body as string))
}

/** The valid headers, some of them replaced, mostly so that the request passes the first checks. */
export const headersOf = (good: Readonly<Record<string, string>>) => {
  const credential = good["authorization"] ?? "Bearer x"
  return fc
    .record(
      {
        authorization: fc.constantFrom(
          credential,
          "Bearer x",
          `${credential}x`,
          credential.toLowerCase(),
          "Basic eDp4",
          "Bearer",
          "\xff"
        ),
        "idempotency-key": fc.constantFrom("k", "", " ", "k".repeat(300), "a b", "\xe9", '"quoted"'),
        "content-type": fc.constantFrom(
          "application/json",
          "application/json;charset=latin1",
          "application/x-www-form-urlencoded",
          "text/plain",
          "/",
          ";",
          ""
        ),
        accept: fc.constantFrom("text/html", "*/*;q=0", "\xff", "application/json, text/event-stream"),
        "content-encoding": fc.constantFrom("gzip", "br", "x"),
        upgrade: fc.constantFrom("h2c", "websocket"),
        origin: fc.constantFrom("null", "http://127.0.0.1", "https://evil.example", "\xff"),
        cookie: fc.constantFrom("oauth_browser=x", "=;=;", "a".repeat(3000), "\xff=\xff"),
        "x-forwarded-for": fc.constantFrom("::1", "1.2.3.4, x", ",".repeat(900)),
        "if-match": fc.constantFrom("*", '"1"', 'W/"1"', "\xff"),
        "if-none-match": fc.constantFrom("*", ",".repeat(900)),
        "mcp-protocol-version": fc.constantFrom("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1", "\xff"),
        "mcp-session-id": fc.constantFrom("x", "\xff"),
        "user-agent": fc.string({ unit: "grapheme-ascii", maxLength: 300 }).map((line) => line.trim())
      },
      { requiredKeys: [] }
    )
    .map((headers): Readonly<Record<string, string>> => ({ ...good, ...headers }))
}

interface Parts {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

const goodBody = ({ form, json }: Target) =>
  Buffer.from(
    json !== undefined ? JSON.stringify(json) : form !== undefined ? new URLSearchParams(form).toString() : ""
  )

const pathOf = ({ path, query }: Target, given = query) =>
  given === undefined ? path : `${path}?${new URLSearchParams(given)}`

const parts = (target: Target): Parts => ({
  method: target.method,
  path: pathOf(target),
  headers: target.headers,
  body: goodBody(target)
})

/** The lines exactly as given. */
const raw = (start: string, lines: ReadonlyArray<string>, body: Uint8Array | string = "") =>
  Buffer.concat([Buffer.from(`${[start, ...lines].join("\r\n")}\r\n\r\n`, "latin1"), Buffer.from(body as string)])

const linesOf = (headers: Readonly<Record<string, string>>) =>
  Object.entries(headers).map(([name, value]) => `${name}: ${value}`)

const start = ({ method, path }: Parts, version = "HTTP/1.1") => `${method} ${path} ${version}`

const wellFramed = (name: string, of: Parts): Attempt => {
  const length = of.body.length === 0 && of.method === "GET" ? [] : [`content-length: ${of.body.length}`]
  const bytes = raw(start(of), ["host: localhost", ...linesOf(of.headers), ...length], of.body)
  return { name, bytes, answers: [of.method === "HEAD"] }
}

const chunked = (body: Uint8Array, size: string, end = "0\r\n\r\n") =>
  Buffer.concat([Buffer.from(`${size}\r\n`), body, Buffer.from(`\r\n${end}`)])

/** Requests after which the framing of no answer can be relied on. */
const misframed: Readonly<Record<string, (of: Parts) => Buffer>> = (() => {
  const framed =
    (...lines: ReadonlyArray<string>) =>
    (of: Parts) =>
      raw(start(of), ["host: localhost", ...linesOf(of.headers), ...lines], of.body)
  const inChunks = (line: string, frame: (body: Uint8Array) => Uint8Array) => (of: Parts) =>
    raw(start(of), ["host: localhost", ...linesOf(of.headers), line], frame(of.body))
  const length = ({ body }: Parts) => `content-length: ${body.length}`
  const hex = (body: Uint8Array) => body.length.toString(16)
  const transfer = "transfer-encoding: chunked"
  return {
    "a length too small": (of) => framed(`content-length: ${of.body.length >> 1}`)(of),
    "a length of -1": framed("content-length: -1"),
    "a length in hexadecimal": (of) => framed(`content-length: 0x${hex(of.body)}`)(of),
    "a length with a sign": (of) => framed(`content-length: +${of.body.length}`)(of),
    "a length beyond all numbers": framed("content-length: 99999999999999999999"),
    "two lengths": (of) => framed(length(of), "content-length: 3")(of),
    "a list of lengths": (of) => framed(`content-length: ${of.body.length}, ${of.body.length}`)(of),
    "length and chunks": (of) => inChunks(`${length(of)}\r\n${transfer}`, (body) => chunked(body, hex(body)))(of),
    chunks: inChunks(transfer, (body) => chunked(body, hex(body))),
    "a chunk with an invalid size": inChunks(transfer, (body) => chunked(body, "zz")),
    "a chunk of a size beyond all numbers": inChunks(transfer, (body) => chunked(body, "f".repeat(20))),
    "a chunk with a negative size": inChunks(transfer, (body) => chunked(body, `-${hex(body)}`)),
    "a chunk with a long extension": inChunks(transfer, (body) =>
      chunked(body, `${hex(body)};x=${"y".repeat(20_000)}`)
    ),
    "a chunk that is longer than it says": inChunks(transfer, (body) => chunked(body, "1")),
    "chunks of one byte": inChunks(transfer, (body) =>
      Buffer.from(`${[...body].map((byte) => `1\r\n${String.fromCharCode(byte)}\r\n`).join("")}0\r\n\r\n`, "latin1")
    ),
    "chunks with trailers": inChunks(transfer, (body) =>
      chunked(body, hex(body), "0\r\ncontent-length: 5\r\nauthorization: Bearer x\r\n\r\n")
    ),
    "an unknown transfer encoding": inChunks("transfer-encoding: gzip", (body) => body),
    "two transfer encodings": inChunks(`transfer-encoding: identity\r\n${transfer}`, (body) =>
      chunked(body, hex(body))
    ),
    "a transfer encoding with a space": inChunks("transfer-encoding : chunked", (body) => chunked(body, hex(body))),
    "no host": (of) => raw(start(of), [...linesOf(of.headers), length(of)], of.body),
    "two hosts": (of) => framed("host: other", length(of))(of),
    "an invalid host": (of) => raw(start(of), ["host: a b/c@d", ...linesOf(of.headers), length(of)], of.body),
    "a folded header": (of) => framed("x-a: b\r\n c", length(of))(of),
    "a header without name": (of) => framed(": b", length(of))(of),
    "a header without colon": (of) => framed("nonsense", length(of))(of),
    "NUL in a header": (of) => framed("x-a: a\0b", length(of))(of),
    "a header of 300 KB": (of) => framed(`x-a: ${"y".repeat(300_000)}`, length(of))(of),
    "3,000 headers": (of) => framed(...Array.from({ length: 3000 }, (_, i) => `x-${i}: y`), length(of))(of),
    "every header twice": (of) => framed(...linesOf(of.headers), length(of))(of),
    "bare line feeds": (of) =>
      Buffer.from(framed(length(of))(of).toString("latin1").replaceAll("\r\n", "\n"), "latin1"),
    "empty lines first": (of) => Buffer.concat([Buffer.from("\r\n\r\n"), framed(length(of))(of)]),
    "HTTP/1.0": (of) => raw(start(of, "HTTP/1.0"), [...linesOf(of.headers), length(of)], of.body),
    "HTTP/0.9": ({ path }) => Buffer.from(`GET ${path}\r\n\r\n`),
    "HTTP/9.9": (of) => raw(start(of, "HTTP/9.9"), ["host: localhost", length(of)], of.body),
    "the preface of HTTP/2": () => Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "the hello of TLS": () => Buffer.from("160301010001000fc0303", "hex"),
    "an invalid method": (of) => raw(start({ ...of, method: "G<>T" }), ["host: localhost", length(of)], of.body),
    CONNECT: ({ headers }) => raw("CONNECT localhost:1 HTTP/1.1", ["host: localhost", ...linesOf(headers)]),
    "a path of 100 KB": (of) => raw(start({ ...of, path: `${of.path}?${"x".repeat(100_000)}` }), ["host: localhost"]),
    "control characters in the path": (of) => raw(start({ ...of, path: `${of.path}\x01\x7f` }), ["host: localhost"]),
    "a space in the path": (of) => raw(start({ ...of, path: `${of.path} x` }), ["host: localhost"]),
    "bytes above ASCII in the path": (of) => raw(start({ ...of, path: `${of.path}/\xff\xfe` }), ["host: localhost"]),
    "an upgrade": (of) =>
      framed("connection: upgrade", "upgrade: websocket", "sec-websocket-key: eA==", length(of))(of),
    "an expectation": (of) => framed("expect: 100-continue", length(of))(of),
    "an unknown expectation": (of) => framed("expect: miracles", length(of))(of)
  }
})()

/** Unfinished requests, which the server has to end. */
export const unfinished: Readonly<Record<string, (of: Parts) => Buffer>> = {
  "no byte": () => Buffer.alloc(0),
  "half a start": ({ method, path }) => Buffer.from(`${method} ${path}`),
  "headers without end": (of) => raw(start(of), ["host: localhost", ...linesOf(of.headers)]).subarray(0, -2),
  "a body shorter than its length": (of) =>
    raw(start(of), ["host: localhost", ...linesOf(of.headers), `content-length: ${of.body.length + 9}`], of.body),
  "chunks without end": (of) =>
    raw(start(of), ["host: localhost", ...linesOf(of.headers), "transfer-encoding: chunked"], "1\r\nx\r\n")
}

const tricks = (path: string): ReadonlyArray<string> => [
  `/${path}`,
  `${path}/`,
  path.toUpperCase(),
  `${path}/..`,
  `${path}/%2e%2e/%2e%2e`,
  `${path}%2f..%2f..%2fetc%2fpasswd`,
  `${path}%00`,
  `${path}%ff`,
  `${path}%`,
  `${path};a=b`,
  `${path}#x`,
  `${path}?`,
  `${path}?x=%ff&x=%00&__proto__=1`,
  `${path}?${"a=b&".repeat(3000)}`,
  `http://other.example${path}`,
  "*",
  "/..",
  "/%",
  "/bridge/v1/mobile/devices/%E0%A4%A",
  `${path}/${"x".repeat(9000)}`
]

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "SEARCH"]

/** Every way to spoil a request to the target. Sometimes several are sent at once on one connection. */
export const attempts = (target: Target): fc.Arbitrary<Attempt> => {
  const good = parts(target)
  const { form, json, name, query } = target
  const bodies =
    json !== undefined ? bodyOf(json) : form !== undefined ? formOf(form) : fc.constant<Uint8Array>(good.body)
  const labelled = (which: string, of: fc.Arbitrary<Parts>) =>
    of.map((request) => wellFramed(`${name}: ${which}`, request))
  const paths =
    query === undefined ? fc.constant(good.path) : formOf(query).map((bytes) => `${target.path}?${encodedQuery(bytes)}`)
  const careless = fc.oneof(
    {
      weight: 6,
      arbitrary: labelled(
        "body",
        fc.tuple(bodies, paths).map(([body, path]) => ({ ...good, body, path }))
      )
    },
    {
      weight: 3,
      arbitrary: labelled(
        "headers",
        headersOf(good.headers).map((headers) => ({ ...good, headers }))
      )
    },
    {
      weight: 2,
      arbitrary: labelled(
        "all",
        fc
          .tuple(headersOf(good.headers), bodies, paths)
          .map(([headers, body, path]) => ({ ...good, headers, body, path }))
      )
    },
    {
      weight: 2,
      arbitrary: labelled(
        "path",
        fc.constantFrom(...tricks(good.path)).map((path) => ({ ...good, path }))
      )
    },
    {
      weight: 1,
      arbitrary: labelled(
        "method",
        fc.constantFrom(...methods).map((method) => ({ ...good, method }))
      )
    }
  )
  const careful = fc.array(careless, { minLength: 2, maxLength: 5 }).map((several): Attempt => ({
    name: several.map(({ name }) => name).join(" + "),
    bytes: Buffer.concat(several.map(({ bytes }) => bytes)),
    answers: several.flatMap(({ answers }) => answers)
  }))
  const broken = fc.tuple(fc.constantFrom(...Object.keys(misframed)), bodies).map(([how, body]): Attempt => ({
    name: `${name}: ${how}`,
    bytes: misframed[how]!({ ...good, body }),
    answers: []
  }))
  return fc.oneof(
    { weight: 16, arbitrary: careless },
    { weight: 1, arbitrary: careful },
    { weight: 2, arbitrary: broken }
  )
}

/** The part of a path that can stand in a start line. */
const encodedQuery = (bytes: Uint8Array) =>
  Buffer.from(bytes)
    .toString("latin1")
    .replaceAll(/[\0- \x7f]/g, "%00")

/** An unfinished request to the target, each kind in turn. */
export const unfinishedAttempt = (target: Target, index: number): Attempt => {
  const kinds = Object.keys(unfinished)
  const how = kinds[index % kinds.length]!
  return { name: `${target.name}: ${how}`, bytes: unfinished[how]!(parts(target)), answers: [] }
}
