// `npm run bench [name ...] [-- --seconds N --requests N]`: runs bench/<name>.ts, by default all of them, and replaces their
// tables in docs/benchmarks.md. The tables of benchmarks that did not run stay.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, loadavg, totalmem } from "node:os"

const file = "docs/benchmarks.md"
const names = ["enrollment", "rotation", "oauth", "mcp", "push", "replicas", "startup"]

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

Each table is one run of \`bench/<name>.ts\`: the service as it starts with \`npm start\`, its managed PostgreSQL with fsync on,
16 clients on keep-alive connections, rate limits off. The load comes from a process of its own on the same machine, so
rates are floors, not capacities.

What compares is the ratio: the service's number to that of the peer in the row, measured in turns in the same run; the
median round, and in brackets the lowest and the highest. Other numbers are medians too. Rates depend on what else the
machine does, and a busy machine gives the ten processes of PostgreSQL more turns than the one of the service; CPU time
per operation depends on it least.

What is missed, and why:

- **The lookup, 1.5 of node:http and \`pg\`.** A router of Effect with its own driver and the same row decoded is 1.3 to
  1.4 of it, before anything of ours. The rest is the checked contract (HttpApi), the request id, the limits, the deadline
  and what is counted.
- **Rotation, half of pgbench.** pgbench does two statements and nothing else; two requests with their parsing, deriving
  and answering leave 0.4 on two cores that PostgreSQL and the load share.
- **Enrollment, three times pebble.** pebble keeps everything in memory and does three times what pgbench does here with the
  statements alone and fsync on: no server that keeps what it acknowledged can meet it.
- **Refresh grants, as cheap as oidc-provider in memory.** It asks no database. One lookup of ours costs as much as its whole
  refresh; a refresh is a statement that ends one token, writes two and an audit row.
- **tools/call, 1.7 of an SDK server that does nothing.** Less its SQL, memory_get is at 2: access, limits, arguments and results
  checked against their schemas, what is counted.
- **memory_search at 100,000 entries, under 10 ms.** The median is 11, of which 10 are PostgreSQL's, scoring 18,000 postings.
- **\`service-admin --help\`, under 100 ms.** 115, of which Node takes 25 to start at all and most of the rest loads
  Effect. A compile cache would meet it; in a shared folder it would let others plant code for a command that root runs.
- **Two replicas, 1.7 of one.** Four processes and two cores: docs/scaling.md says how it is measured all the same.`

writeFileSync(file, `${[introduction, ...names.flatMap((name) => sections.get(name) ?? [])].join("\n\n")}\n`)
process.exitCode = failed ? 1 : 0
