/**
 * Checks whether clients that are identified by a metadata document can sign in: the document of each well-known client is
 * fetched as the service would, or its copy in this release stands in for it.
 */
import { Effect, Option, Result } from "effect"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { acceptable } from "../../../src/signin/oauth/clients/ClientDocuments.ts"
import { fetchDocument } from "../../../src/signin/oauth/clients/fetchDocument.ts"
import { shippedDocument, shippedDocuments } from "../../../src/signin/oauth/clients/ShippedDocuments.ts"
import { type Check, check } from "./Check.ts"

/** One check per listed host. */
export const clientDocuments = ({
  oauth
}: {
  readonly oauth: Pick<Settings["Service"]["oauth"], "cimd" | "cimdHosts">
}): Effect.Effect<ReadonlyArray<Check>> =>
  oauth.cimd === "off"
    ? Effect.succeed([
        check("clients", "ok", "No client is identified by a metadata document: SERVICE_OAUTH_CIMD=off.")
      ])
    : Effect.forEach(oauth.cimdHosts, ofHost, { concurrency: 8 })

const ofHost = (host: string) => {
  const client_ids = Object.keys(shippedDocuments).filter((client_id) => new URL(client_id).hostname === host)
  return client_ids.length === 0 ? withoutCopy(host) : withCopies(host, client_ids)
}

const withCopies = Effect.fnUntraced(function* (host: string, client_ids: ReadonlyArray<string>) {
  const found = yield* Effect.forEach(client_ids, examined, { concurrency: "unbounded" })
  const names = (state: (typeof found)[number]["state"]) =>
    found
      .filter((client) => client.state === state)
      .map(({ name }) => name)
      .join(", ")
  const reason = found.find(({ state }) => state === "copy")?.reason
  const sentences = [
    names("fetched") && `fetched for ${names("fetched")}`,
    names("changed") && `fetched for ${names("changed")}, and differs from the copy in this release: upgrade`,
    names("copy") && `not fetched (${reason}), so its copy in this release identifies ${names("copy")}`,
    names("refused") && `withdrawn or not acceptable for ${names("refused")}, which cannot sign in with it`
  ].filter((sentence) => sentence !== "")
  const isWarning = found.some(({ state }) => state === "changed" || state === "refused")
  return check("clients", isWarning ? "warn" : "ok", `Metadata document at ${host}: ${sentences.join("; ")}.`)
})

const examined = Effect.fnUntraced(function* (client_id: string) {
  const { name, redirect_uris } = Option.getOrThrow(shippedDocument(client_id))
  return yield* fetchDocument(new URL(client_id)).pipe(
    Effect.flatMap(({ document }) => Effect.fromResult(acceptable(client_id, document))),
    Effect.match({
      onSuccess: (fetched) => ({
        name,
        state: isSame(fetched.redirect_uris, redirect_uris) ? ("fetched" as const) : ("changed" as const),
        reason: ""
      }),
      onFailure: ({ isFinal, reason }) => ({
        name,
        state: isFinal === true ? ("refused" as const) : ("copy" as const),
        reason
      })
    })
  )
})

const isSame = (some: ReadonlyArray<string>, others: ReadonlyArray<string>) =>
  some.length === others.length && some.every((uri) => others.includes(uri))

/** No copy of this host's documents ships, and their addresses are not known: anything that it answers will do. */
const withoutCopy = (host: string) =>
  Effect.map(Effect.result(fetchDocument(new URL(`https://${host}/`))), (asked) =>
    Result.isFailure(asked) && asked.failure.isAnswer !== true
      ? check(
          "clients",
          "warn",
          `${host} cannot be asked for metadata documents (${asked.failure.reason}), and this release has no copy of them: allow outgoing connections to it, or make its clients known with create-oauth-client.`
        )
      : check("clients", "ok", `${host} answers; its metadata documents are fetched when a client names one.`)
  )
