// `npm run bench [name ...] [-- --seconds N --requests N]`: runs these benchmarks, by default all of them, and replaces
// their tables in docs/benchmarks.md. The tables of benchmarks that did not run stay.
// `npm run bench [operation ...] -- --compare BASE`: compares this work tree with another commit (bench/compare.ts).
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, loadavg, totalmem } from "node:os"
import { basename } from "node:path"

const file = "docs/benchmarks.md"
const programs = new Map(
  [
    "enrollment",
    "rotation",
    "lookups",
    "possession",
    "oauth",
    "mcp",
    "search",
    "embeddings",
    "push",
    "scaling/replicas",
    "scaling/processes",
    "startup",
    "scaling/scale"
  ].map((path) => [basename(path), `bench/${path}.ts`])
)
const names = [...programs.keys()]

const args = process.argv.slice(2)
const options = args.slice([...args, "--"].findIndex((argument) => argument.startsWith("--")))
if (options.some((option) => option.startsWith("--compare"))) {
  const { status } = spawnSync(process.execPath, ["bench/compare.ts", ...args], { stdio: "inherit" })
  process.exit(status ?? 1)
}
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
  const { status, stdout } = spawnSync(process.execPath, [programs.get(name), ...options], {
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

Each table is one run of a program in \`bench\`: the service as started by \`npm start\`, its embedded PostgreSQL with fsync on,
16 clients on keep-alive connections, rate limits off. A separate process on the same machine generates the load, so the
rates are lower bounds, not capacities.

Compare the ratios: the service's number divided by that of the peer in the row, measured alternately in the same run;
the median round, with the lowest and the highest in brackets. Other numbers are medians too. Rates depend on the
machine's other load: a busy machine gives PostgreSQL's ten processes more CPU time than the service's one process. CPU
time per operation depends on it least.

\`npm run bench rotate -- --compare main\` judges a change in a minute or a few, on a busy machine too: it runs the services of
this work tree and of another commit in turns of a second, and prints the ratio with its quartiles.

The aims that were missed or only just met, and why:

- **The lookup, 1.2 of node:http and \`pg\`, and sharing its statement at no cost of time for one client (1.05).** 1.7 to 2.1,
  and 1.08, in this run. An Effect router with its own driver, decoding the same row, already costs
  1.3 to 1.4. The rest is the checked contract, the request id, the limits, the deadline and the metrics.
- **Enrollment, 0.9 of pgbench with 64 clients, and rotation, 0.7 with 16 and 1.2 with 64.** Close to the limits: 0.89, 0.67
  and 1.19 in this run, 1.07, 0.76 and 1.23 in the one before. Requests of different Bridges share statements (decisions.md,
  Changes that share a statement).
- **A DPoP proof, 120 µs of CPU.** The first proof by a key also imports the key, and is close to the limit: 115 in this run,
  131 in the one before. The bare signature is more than half of either.
- **Code and refresh grants, 0.8 of oidc-provider on PostgreSQL.** The peer writes no audit row, and its raw token is its
  key. Both grants share statements, which took codes from 1.59 to 1.05, and refreshes from 1.53 to between 0.93 and 1.25, and
  both to more a second than the peer. pebble and oidc-provider in memory have no aim: they acknowledge what a power cut
  loses.
- **tools/call, 1.7 of an SDK server that does nothing.** memory_get meets it: access, limits, arguments and results are
  checked, and metrics counted. The others do more than their SQL: memory_add looks for secrets and for similar entries,
  memory_search ranks what it finds, task_update makes notifications.
- **memory_search at 100,000 entries, under 10 ms.** Close to the limit: 9.2 in this run, 9.8 and 10.4 in earlier ones, nearly
  all of it in PostgreSQL, which scores 18,000 postings.
- **\`service-admin --help\`, under 100 ms.** 138, of which Node needs 24 to start at all, and loading Effect most of the
  rest. A compile cache would meet the aim, but in a shared folder it would let others plant code for a command that root
  runs.
- **Two replicas, 1.7 of one, and four processes, 3 of one.** Met in this run; the same processes reached 2.9 and 3.1 before.
  They need more cores than this machine has: docs/scaling.md explains how they are measured nevertheless. One process also
  shares more of its statements than four do with a quarter of the callers each.`

writeFileSync(file, `${[introduction, ...names.flatMap((name) => sections.get(name) ?? [])].join("\n\n")}\n`)
process.exitCode = failed ? 1 : 0
