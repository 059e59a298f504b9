/**
 * The receivers of the soak, of notifications and of texts to embed, and what goes wrong with them: answers of 500, none at
 * all, connections that end, a receiver that is gone, and one that refuses for good.
 */
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { startEmbedder } from "../../../../support/agents/Embedder.ts"
import { apnsSimulator, type Fault, settingsFor } from "../../../../support/phones/ApnsSimulator.ts"
import { host, makeReceiver } from "../../../../support/phones/Receiver.ts"

export const paths = ["/fair", "/poor"] as const

export const makeWeather = Effect.fnUntraced(function* (folder: string) {
  const receiver = yield* makeReceiver()
  const phones = yield* apnsSimulator()
  const embedder = yield* startEmbedder()
  const secret = randomBytes(24).toString("hex")
  const keyFile = join(folder, "embeddings.key")
  writeFileSync(keyFile, secret, { mode: 0o600 })
  const settings = {
    ...settingsFor(phones, folder),
    ...embedder.settings,
    SERVICE_EMBEDDINGS_KEY_FILE: keyFile,
    SERVICE_PUSH_TOKEN_KEYS: `k1:${randomBytes(32).toString("base64")}`,
    SERVICE_CHANNEL_PRIVATE_HOSTS: host,
    NODE_OPTIONS: `--max-semi-space-size=16 --import ${pathToFileURL(join(import.meta.dirname, "../Names.mjs"))}`
  }

  const [, plain] = receiver.servers
  const { port } = new URL(receiver.plain)
  /** The push tokens of phones with bad reception. */
  const poor = new Set<string>()
  const reception = (fault: Fault | undefined) => {
    for (const token of poor) {
      if (fault === undefined) phones.faults.delete(token)
      else phones.faults.set(token, fault)
    }
  }
  const closed: Array<number> = []
  const gone = Effect.sync(() => {
    closed.push(performance.now())
    plain!.close()
    plain!.closeAllConnections()
  })
  const back = Effect.promise(async () => {
    if (plain!.listening) return
    plain!.listen(Number(port), "127.0.0.1")
    await once(plain!, "listening")
  })
  const fair = Effect.andThen(
    back,
    Effect.sync(() => {
      reception(undefined)
      receiver.answers.clear()
      embedder.answer = undefined
    })
  )
  const poorly = (answer: 400 | 500 | "hang", fault: Fault, embeds: (typeof embedder)["answer"]) =>
    Effect.sync(() => {
      receiver.answers.set("/poor", answer)
      reception(fault)
      embedder.answer = embeds
    })
  const stretches = [
    fair,
    // Apple says when to come again; without that every phone would rest for a quarter of an hour.
    poorly(500, { status: 503, reason: "ServiceUnavailable", retryAfter: 5 }, (response) =>
      response.writeHead(500).end()
    ),
    Effect.andThen(
      fair,
      poorly("hang", "hang", () => {})
    ),
    Effect.andThen(fair, gone),
    Effect.andThen(fair, poorly(400, "kill", undefined))
  ]

  /** When each delivery was taken. */
  const accepted = () => {
    const times = new Map<string, Array<number>>()
    const take = (id: string, at: number) => void times.set(id, [...(times.get(id) ?? []), at])
    for (const { answer, at, headers } of receiver.received) if (answer === 200) take(String(headers["webhook-id"]), at)
    for (const { at, delivery_id } of phones.received) take(delivery_id, at)
    return times
  }
  return {
    settings,
    secrets: [secret],
    poor,
    url: (path: (typeof paths)[number]) => `http://${host}:${port}${path}`,
    fair,
    /** One stretch after the other, each as long, for ever. */
    changing: (millis: number) => Effect.forever(Effect.forEach(stretches, (one) => Effect.delay(one, millis))),
    accepted,
    /** When connections were closed: what was taken and not answered yet comes again. */
    interrupted: () => [...closed, ...phones.killed].map((at) => ({ from: at - 100, to: at + 100 })),
    embedded: () => embedder.received.length
  }
})
export type Weather = Effect.Success<ReturnType<typeof makeWeather>>
