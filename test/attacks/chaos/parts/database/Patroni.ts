/**
 * The database cluster of deploy/ha, started by its own script. The connections between its nodes go through relays, so that
 * a node can be cut off from the others; the proxy, the replicas and the script reach each node directly.
 */
import { Effect } from "effect"
import { execFile, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { relay } from "../../../../support/network/Relay.ts"
import { packageRoot } from "../../../../support/run/Root.ts"
import { awaiting, ChaosError } from "../../harness.ts"

const numbers = [1, 2, 3] as const
export type Node = (typeof numbers)[number]

/** Why there can be no cluster here; undefined if there can. */
export const cannotRun = () => {
  const needed = [
    "patroni",
    "etcd",
    "haproxy",
    "psql",
    "curl",
    "pgrep",
    ...(process.getuid!() === 0 ? ["setpriv"] : [])
  ]
  const env = { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin` }
  const missing = needed.filter((name) => spawnSync("sh", ["-c", `command -v ${name}`], { env }).status !== 0)
  if (missing.length > 0) return `not installed: ${missing.join(", ")}`
  if (!fs.existsSync("/usr/lib/postgresql")) return "not installed: Debian's package postgresql"
  return spawnSync("/usr/bin/python3", ["-c", "import etcd"]).status === 0 ? undefined : "not installed: python3-etcd"
}

interface Member {
  readonly name: string
  readonly role: string
}

interface Status {
  readonly state: string
  readonly replication?: ReadonlyArray<{
    readonly application_name: string
    readonly state: string
    readonly sync_state: string
  }>
}

/** `unsafe`: with Patroni's etcd3 interface, although deploy/ha/check refuses it. */
export const patroniCluster = Effect.fnUntraced(function* (scratch: string, { unsafe }: { readonly unsafe: boolean }) {
  const folder = join(scratch, "ha")
  const files = unsafe ? join(scratch, "unsafe") : join(packageRoot, "deploy/ha")
  if (unsafe) {
    fs.cpSync(join(packageRoot, "deploy/ha"), files, { recursive: true })
    fs.writeFileSync(join(files, "check"), "#!/bin/sh\n")
  }
  const first = 10_000 + (process.pid % 200) * 60
  const run = (...args: ReadonlyArray<string>) =>
    Effect.tryPromise({
      try: () =>
        promisify(execFile)(join(files, "trial"), [args[0]!, folder, ...args.slice(1)], {
          env: { ...process.env, HA_PORT: `${first}` },
          timeout: 180_000
        }),
      catch: (error) => new ChaosError({ message: String((error as { readonly stderr?: string }).stderr ?? error) })
    })

  yield* run("prepare")
  const at = (port: number) => ({ host: "127.0.0.1", port })
  const nodes = yield* Effect.forEach(
    numbers,
    Effect.fnUntraced(function* (n) {
      const [database, control] = [yield* relay(at(first + n)), yield* relay(at(first + 10 + n))]
      const etcd = yield* Effect.forEach(numbers, (other) => relay(at(first + 20 + other)))
      const file = join(folder, `db${n}.env`)
      const hosts = etcd.map(({ port }) => `127.0.0.1:${port}`).join(",")
      const interfaceOf = unsafe ? "PATRONI_ETCD3" : "PATRONI_ETCD"
      const replaced = new Map([
        ["PATRONI_RESTAPI_CONNECT_ADDRESS", `PATRONI_RESTAPI_CONNECT_ADDRESS=127.0.0.1:${control.port}`],
        ["PATRONI_POSTGRESQL_CONNECT_ADDRESS", `PATRONI_POSTGRESQL_CONNECT_ADDRESS=127.0.0.1:${database.port}`],
        // As proxies: otherwise Patroni asks etcd for its addresses, and passes by the relays.
        ["PATRONI_ETCD_HOSTS", `${interfaceOf}_HOSTS=${hosts}\n${interfaceOf}_USE_PROXIES=true`]
      ])
      const lines = fs.readFileSync(file, "utf8").split("\n")
      fs.writeFileSync(file, lines.map((line) => replaced.get(line.split("=")[0]!) ?? line).join("\n"))
      return { n, database, control, etcd, lines: [database, control, ...etcd] }
    })
  )

  const everything = numbers.flatMap((n) => [`etcd${n}`, `db${n}`])
  yield* Effect.addFinalizer(() => Effect.ignore(run("kill", ...everything, "proxy")))
  yield* run("start", ...numbers.map((n) => `etcd${n}`), ...numbers.map((n) => `db${n}`), "proxy", "database")
  const url = /^DATABASE_URL=(.*)$/m.exec(fs.readFileSync(join(folder, "service.env"), "utf8"))![1]!
  const [, password] = /^PATRONI_SUPERUSER_PASSWORD=(.*)$/m.exec(fs.readFileSync(join(folder, "db1.env"), "utf8"))!
  const hosts = numbers.map((n) => `127.0.0.1:${first + n}`).join(",")

  const ask = async <A>(n: Node, path: string, signal: AbortSignal) => {
    const url = `http://127.0.0.1:${first + 10 + n}/${path}`
    const answer = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(2000)]) }).catch(
      () => undefined
    )
    return answer?.ok === true ? ((await answer.json()) as A) : undefined
  }
  const members = Effect.promise(async (signal) => {
    for (const n of numbers) {
      const answer = await ask<{ readonly members: ReadonlyArray<Member> }>(n, "cluster", signal)
      if (answer !== undefined) return answer.members
    }
    return []
  })
  const nameOf = (wanted: string) => Effect.map(members, (all) => all.find(({ role }) => role === wanted)?.name)
  const numberOf = (wanted: string) =>
    Effect.repeat(Effect.delay(nameOf(wanted), "50 millis"), { until: (name) => name !== undefined }).pipe(
      Effect.map((name) => Number(name!.slice(2)) as Node)
    )
  // The nodes are asked themselves: in etcd a node that was just killed is still a member. But only etcd says which standby
  // may take over: until Patroni has named one, any standby acknowledges commits.
  const state = Effect.gen(function* () {
    const statuses = yield* Effect.promise((signal) =>
      Promise.all(numbers.map((n) => ask<Status>(n, "patroni", signal)))
    )
    const standbys = statuses
      .flatMap((status) => status?.replication ?? [])
      .filter(({ state }) => state === "streaming")
    const synchronous = standbys.find(({ sync_state }) => sync_state === "sync")?.application_name
    const isSynchronous = synchronous !== undefined && synchronous === (yield* nameOf("sync_standby"))
    const isWhole = isSynchronous && standbys.length === 2 && statuses.every((status) => status?.state === "running")
    return { isSynchronous, isWhole }
  })
  const until = (is: (now: Effect.Success<typeof state>) => boolean) =>
    Effect.asVoid(Effect.repeat(Effect.delay(state, "200 millis"), { until: is }))

  return {
    /** Through the proxy, and with every server named. */
    proxied: url,
    superuser: url.replace(/\/\/.*@(.*)\/.*/, `//postgres:${password}@$1/postgres`),
    named: url.replace(/@[^/]*/, `@${hosts}`).concat("?target_session_attrs=read-write"),
    run,
    primary: numberOf("leader"),
    standby: numberOf("sync_standby"),
    /** Until the primary has its synchronous standby. Before, commits can wait for one that has gone. */
    synchronous: until(({ isSynchronous }) => isSynchronous),
    /** The same, until all three run. */
    whole: until(({ isWhole }) => isWhole),
    /** The node reaches neither etcd nor the other nodes, nor they it. */
    cutOff: (node: Node) =>
      Effect.forEach(
        nodes,
        ({ control, lines, n }) =>
          n === node ? Effect.forEach(lines, (line) => line.blackhole) : control.swallow("POST /failsafe"),
        { discard: true }
      ),
    /** Silent connections are closed, as the kernel of a machine would after a while. */
    heal: Effect.forEach(
      nodes.flatMap(({ lines }) => lines),
      (line) => Effect.andThen(line.cut, line.heal),
      { discard: true }
    )
  }
})
type Cluster = Effect.Success<ReturnType<typeof patroniCluster>>

export type Fault =
  | "postgres killed"
  | "node killed"
  | "planned switch"
  | "node frozen and woken"
  | "postgres frozen and woken"
  | "primary cut off"
  | "standby killed"
  | "etcd away for a minute"

/** Each ends when there is another primary, or another standby. */
export const faultsOf = (cluster: Cluster) => {
  const anotherPrimary = (than: Node) =>
    awaiting("another primary", Effect.repeat(cluster.primary, { until: (node) => node !== than }))
  const frozenAndWoken = Effect.fnUntraced(function* (what: string, primary: Node) {
    yield* cluster.run("freeze", what)
    yield* anotherPrimary(primary)
    yield* Effect.sleep("8 seconds")
    yield* cluster.run("wake", what)
    yield* Effect.sleep("5 seconds")
  })
  const strike: Readonly<Record<Fault, (primary: Node) => Effect.Effect<void, ChaosError>>> = {
    "postgres killed": (primary) =>
      Effect.andThen(cluster.run("kill", `postgres${primary}`), Effect.asVoid(anotherPrimary(primary))),
    "node killed": (primary) =>
      Effect.gen(function* () {
        yield* cluster.run("kill", `db${primary}`, `etcd${primary}`)
        yield* anotherPrimary(primary)
        yield* cluster.run("start", `etcd${primary}`, `db${primary}`)
      }),
    "planned switch": (primary) => Effect.andThen(cluster.run("switch"), Effect.asVoid(anotherPrimary(primary))),
    "node frozen and woken": (primary) => frozenAndWoken(`db${primary}`, primary),
    // Patroni waits for an answer of PostgreSQL, and goes on from there.
    "postgres frozen and woken": (primary) => frozenAndWoken(`postgres${primary}`, primary),
    "primary cut off": (primary) =>
      Effect.gen(function* () {
        yield* cluster.cutOff(primary)
        yield* anotherPrimary(primary)
        yield* Effect.sleep("8 seconds")
        yield* cluster.heal
      }),
    "standby killed": () =>
      Effect.gen(function* () {
        const standby = yield* cluster.standby
        yield* cluster.run("kill", `db${standby}`)
        yield* awaiting("another standby", Effect.repeat(cluster.standby, { until: (node) => node !== standby }))
        yield* cluster.run("start", `db${standby}`)
      }),
    "etcd away for a minute": () =>
      Effect.gen(function* () {
        yield* cluster.run("freeze", "etcd1", "etcd2", "etcd3")
        yield* Effect.sleep("60 seconds")
        yield* cluster.run("wake", "etcd1", "etcd2", "etcd3")
      })
  }
  return strike
}
