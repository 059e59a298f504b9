// `npm run bench [name ...] [-- --seconds N --requests N]`: runs bench/<name>.ts, by default all of them, and replaces their
// tables in docs/benchmarks.md. The tables of benchmarks that did not run stay.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, loadavg, totalmem } from "node:os"

const file = "docs/benchmarks.md"
const names = [
  "enrollment",
  "rotation",
  "lookups",
  "possession",
  "oauth",
  "mcp",
  "search",
  "embeddings",
  "push",
  "replicas",
  "processes",
  "startup",
  "scale"
]

const args = process.argv.slice(2)
const options = args.slice([...args, "--"].findIndex((argument) => argument.startsWith("--")))
const requested = args.slice(0, args.length - options.length)
const unknown = requested.filter((name) => !names.includes(name))
if (unknown.length > 0) {
  process.stderr.write(`Unknown benchmark: ${unknown.join(", ")}. Choose from: ${names.join(", ")}.\n`)
  process.exit(64)
}

const section = /^## (\w+)\n[^]*?(?=\n## |$(?![^]))/gm
const written = existsSync(file) ? readFileSync(file, "utf8") : ""
const sections = new Map([...written.matchAll(section)].map(([text, name]) => [name, text.trim()]))

const version = (program) => spawnSync(program, ["--version"], { encoding: "utf8" }).stdout?.trim() ?? "not installed"
const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version

let failed = false
for (const name of requested.length > 0 ? requested : names) {
  const busy = loadavg()[0].toFixed(1)
  const { status, stdout } = spawnSync(process.execPath, [`bench/${name}.ts`, ...options], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"]
  })
  process.stdout.write(stdout)
  const table = stdout.split("\n").filter((line) => line.startsWith("|"))
  failed ||= status !== 0
  if (status !== 0) continue
  const machine = `${cpus().length} × ${cpus()[0].model}, ${Math.round(totalmem() / 2 ** 30)} GiB, load ${busy} before`
  const versions = `node ${process.versions.node}, effect ${versionOf("effect")}, ${version("pgbench")}`
  const when = new Date().toISOString().slice(0, 10)
  const how = `${when}, ${machine}; ${versions}. \`npm run bench ${[name, ...(options.length > 0 ? ["--", ...options] : [])].join(" ")}\``
  sections.set(name, [`## ${name}`, "", how, "", ...table].join("\n"))
}

const introduction = `# Benchmarks

Each table is one run of \`bench/<name>.ts\`: the service as started by \`npm start\`, its embedded PostgreSQL with fsync on,
16 clients on keep-alive connections, rate limits off. A separate process on the same machine generates the load, so the
rates are lower bounds, not capacities.

Compare the ratios: the service's number divided by that of the peer in the row, measured alternately in the same run;
the median round, with the lowest and the highest in brackets. Other numbers are medians too. Rates depend on the
machine's other load: a busy machine gives PostgreSQL's ten processes more CPU time than the service's one process. CPU
time per operation depends on it least.

The aims that were missed or only just met, and why:

- **The lookup, 1.5 of node:http and \`pg\`.** An Effect router with its own driver, decoding the same row, already costs
  1.3 to 1.4. The rest is the checked contract (HttpApi), the request id, the limits, the deadline and the metrics.
- **Rotation, half of pgbench.** pgbench runs only the two statements. Our two requests also parse, derive and answer,
  which leaves 0.4 on two cores shared with PostgreSQL and the load.
- **A DPoP proof, 120 µs of CPU.** Met for a Bridge that comes again. The first proof by a key also imports the key: 131 in
  this run. The bare signature is more than half of either.
- **Enrollment, three times pebble.** pebble keeps everything in memory and does three times what pgbench does here with the
  statements alone and fsync on: no server that persists acknowledged writes can meet this aim.
- **Refresh grants, as cheap as oidc-provider in memory.** oidc-provider uses no database. One of our lookups costs as much
  as its whole refresh; our refresh is a statement that ends one token, and writes two tokens and an audit row.
- **tools/call, 1.7 of an SDK server that does nothing.** Without its SQL, memory_get is at 1.9: it checks access, limits,
  arguments and results against their schemas, and counts metrics.
- **memory_search at 100,000 entries, under 10 ms.** Close to the limit: 9.8 in this run, 10.4 in an earlier one, nearly all
  of it in PostgreSQL, which scores 18,000 postings.
- **\`service-admin --help\`, under 100 ms.** 116, of which Node needs 25 to start at all, and loading Effect most of the
  rest. A compile cache would meet the aim, but in a shared folder it would let others plant code for a command that root
  runs.
- **Two replicas, 1.7 of one, and four processes, 3 of one.** They need more cores than this machine has: docs/scaling.md
  explains how they are measured nevertheless.`

writeFileSync(file, `${[introduction, ...names.flatMap((name) => sections.get(name) ?? [])].join("\n\n")}\n`)
process.exitCode = failed ? 1 : 0
