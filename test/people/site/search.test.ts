/** What people type into the search of /docs, and the section that must be among the first three results. */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { runInNewContext } from "node:vm"
import { docs } from "../../../src/people/site/Docs.ts"
import { ranking } from "../../../src/people/site/docs/Ranking.ts"
import type { OpenApiDocument } from "../../../src/people/site/Endpoints.ts"
import { Api } from "../../../src/wire/Api.ts"

interface Passage {
  readonly href: string
  /** Page and id of the section that a row belongs to. */
  readonly section: string
  readonly heading: string
}

const { find, indexOf } = runInNewContext(`${ranking}; ({ find, indexOf })`) as {
  readonly indexOf: (pages: unknown) => unknown
  readonly find: (
    index: unknown,
    asked: string
  ) => { readonly found: ReadonlyArray<Passage>; readonly isWhole: boolean; readonly isHit: (word: string) => boolean }
}

const deployment = {
  base_url: "https://bridge.example.com",
  issuer: "https://bridge.example.com",
  resource: "https://bridge.example.com/mcp",
  registration: true,
  revocation: true,
  documentHosts: [],
  lifetimes: []
}
let index: unknown
beforeAll(async () => {
  const { search } = docs(deployment, OpenApi.fromApi(Api) as unknown as OpenApiDocument)
  index = indexOf(JSON.parse(await Effect.runPromise(search)))
})

/** Without `/docs/`; a place without `#` is a page. */
const asked: ReadonlyArray<readonly [query: string, ...places: ReadonlyArray<string>]> = [
  // A newcomer.
  ["What is a bridge", "glossary#bridge"],
  ["getting started", "start"],
  ["install", "run#install"],
  ["docker", "run#install"],
  ["what is a receipt", "glossary#receipt"],
  ["how do I answer a question", "console#answer-a-question"],
  ["phone", "run#phones", "console#let-your-phone-ring"],
  ["import notes", "run#bring-what-you-have"],
  ["beads", "run#bring-what-you-have"],
  ["uninstall", "run#install"],

  // An agent's user.
  ["claude code", "agents#claude-code"],
  ["vscode", "agents#vs-code"],
  ["sign in again", "troubleshooting#an-agent-does-not-connect"],
  ["401", "troubleshooting#an-agent-does-not-connect"],
  ["insufficient_scope", "troubleshooting#a-write-is-refused"],
  ["why is my write refused", "troubleshooting#a-write-is-refused"],
  ["write_context", "protocol#write_context"],
  ["write_context_mismatch", "troubleshooting#a-write-is-refused"],
  ["stale_version", "troubleshooting#a-write-is-refused"],
  ["task_claim", "tools#tool-task_claim"],
  ["AGENTS.md", "agents#what-to-tell-your-agent"],
  ["passkey", "console#sign-in-with-a-passkey"],
  ["read only token", "agents", "glossary#contributor-reader"],

  // An operator on a bad night.
  ["database gone", "troubleshooting#the-service-answers-503"],
  ["disk full", "troubleshooting#the-service-answers-503"],
  ["503", "troubleshooting#the-service-answers-503"],
  ["phone does not ring", "emergencies#notifications-do-not-come", "troubleshooting#the-console"],
  ["bridge stranded", "troubleshooting#a-bridge-does-not-enroll-or-rotate"],
  ["restore backup", "run#backup-and-restore"],
  ["lost backup key", "emergencies#something-was-stolen-leaked-or-lost"],
  ["token leaked", "emergencies#something-was-stolen-leaked-or-lost"],
  ["How do I stop everything?", "emergencies#stop-one-thing-or-everything"],
  ["revoke bridge", "emergencies#stop-one-thing-or-everything", "reference#revoke-bridge"],
  ["EADDRINUSE", "troubleshooting#the-service-does-not-start"],
  ["BridgeServiceDatabaseAway", "emergencies#an-alert-fired"],
  ["bridge_persistence_error", "troubleshooting#the-service-answers-503"],
  ["too many requests", "troubleshooting#any-request"],

  // An operator on a good day.
  ["SERVICE_BASE_URL", "reference#settings"],
  ["trusted proxies", "reference#settings"],
  ["rotate secrets", "run#replace-a-secret"],
  ["upgrade", "run#upgrade"],
  ["nginx", "scaling#nginx"],
  ["prometheus metrics", "run#watch", "reference#metrics"],
  ["exit code 78", "reference#exit-codes", "troubleshooting#the-service-does-not-start"],
  ["create-project-token", "reference#commands"],
  ["delete a project", "run#erase"],
  ["ntfy", "run#ntfy-and-webhooks"],
  ["ollama embeddings", "run#search-by-meaning"],
  ["kubernetes", "run#install"],

  // A Bridge's author.
  ["go", "bridges#a-bridge-to-start-from"],
  ["python", "bridges#a-bridge-to-start-from"],
  ["check-bridge", "bridges#check-yours"],
  ["lost answer rotation", "bridges#how-it-rotates"],
  ["test vectors", "bridges#test-vectors"],
  ["dpop proof", "protocol#proof-of-possession"],
  ["bridge_rotation_expired", "troubleshooting#a-bridge-does-not-enroll-or-rotate"],
  ["rotate/confirm", "protocol#post-bridgev1tokensrotateconfirm", "endpoints#endpoint-rotation.confirm"],
  ["webhook signature", "protocol#webhooks"],

  // A security reviewer.
  ["threat model", "security#what-is-not-defended", "security#questions-of-a-reviewer"],
  ["audit log tamper", "run#the-audit-log", "security#questions-of-a-reviewer"],
  ["token format", "service#tokens"],
  ["are tokens hashed", "security#no-secret-that-grants-access-is-stored", "service#tokens"],
  ["erase personal data", "run#erase"],
  ["gdpr", "run#erase"],
  ["report a vulnerability", "vulnerabilities"],

  // Half a word, and a slip.
  ["troublesh", "troubleshooting"],
  ["rotaton", "bridges#how-it-rotates", "glossary#rotation"]
]

describe("the search of /docs", () => {
  it.each(asked)("%s", (query, ...places) => {
    const first = find(index, query).found.slice(0, 3)
    const names = first.flatMap(({ href, section }) =>
      [href, section, href.split("#")[0]!].map((name) => name.slice("/docs/".length))
    )
    assert.isTrue(
      places.some((place) => names.includes(place)),
      `It leads to ${first.map(({ href }) => href).join(", ")}`
    )
  })

  it("has at most two results of one section, and none for words that are nowhere", () => {
    const { found } = find(index, "token")
    for (const [, same] of Map.groupBy(found, ({ section }) => section)) assert.isAtMost(same.length, 2)
    assert.deepStrictEqual([...find(index, "zzyzx qqqq").found], [])
  })

  it("says whether anything has all of the words, and which words were hits", () => {
    const { isHit, isWhole } = find(index, "rotating tokens")
    assert.isTrue(isWhole)
    assert.deepStrictEqual(["rotation", "Token", "key"].map(isHit), [true, true, false])
    assert.isFalse(find(index, "rotating zzyzx").isWhole)
    assert.isTrue(find(index, "bakcup").isHit("backup"), "two letters in the other order")
  })
})
