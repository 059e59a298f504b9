// `npm run mutation [area ...] [--share N]`: would the tests notice? Changes one thing in the code of an area, an operator,
// a condition, a statement, a line of SQL, and runs the area's tests; then the next. A change that no test notices
// survives and is printed. Exit code 1 when fewer than 85 % of an area's are noticed. `--share 4` tries every fourth.
import { parseSync } from "oxc-parser"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { makeCluster } from "../test/support/run/globalSetup.ts"

const filesOf = (folder, names) => names.split(" ").map((name) => `src/${folder}/${name}.ts`)
const testsOf = (names) => names.split(" ").map((name) => `test/${name}.test.ts`)

/** The quickest tests first: the first one that notices ends the run. */
const areas = {
  tokens: {
    files: filesOf("platform/crypto", "Tokens Derivation"),
    tests: testsOf("platform/crypto/tokens platform/crypto/derivation")
  },
  rotation: {
    files: filesOf("bridges/rotation", "Bearer prepare PrepareStore endRotation EndStore Rotation RotationStore"),
    tests: testsOf("bridges/rotation bridges/rotation-codes attacks/lost-answers attacks/races/rotation")
  },
  access: {
    files: [
      ...filesOf(
        "signin/access",
        "Access BearerCredential WwwAuthenticate AccessStore ProjectTokens ProjectTokenStore"
      ),
      "src/platform/sql/StandingGrant.ts"
    ],
    tests: testsOf("signin/access attacks/doors signin/oauth/answers people/mobile/devices")
  },
  grants: {
    files: [
      ...filesOf("signin/oauth/tokens", "issueTokens TokenClauses Codes CodeStore RefreshTokens RefreshTokenStore"),
      ...filesOf("signin/oauth", "grants/Grants grants/GrantStore clients/RedirectUri Pkce")
    ],
    tests: testsOf(
      "signin/oauth/redirect-uris signin/oauth/token signin/oauth/clients signin/oauth/answers attacks/failpoints/oauth operator/access"
    )
  },
  idempotency: {
    files: filesOf("agents/continuity", "Idempotency IdempotencyStore"),
    tests: testsOf("agents/idempotency agents/tasks")
  }
}
const least = 0.85
const patience = 180_000

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { share: { type: "string", default: "1" }, at: { type: "string", default: String(availableParallelism()) } }
})
const unknown = positionals.filter((name) => !(name in areas))
if (unknown.length > 0) {
  process.stderr.write(`No such area: ${unknown.join(", ")}. There are: ${Object.keys(areas).join(", ")}.\n`)
  process.exit(64)
}

const opposites = {
  "===": "!==",
  "!==": "===",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "+": "-",
  "-": "+",
  "&&": "||",
  "||": "&&"
}

/** Each change is a range of the text and what stands there instead. */
const changesOfNode = (node, text) => {
  const between = (left, right, operator) => {
    const start = text.indexOf(operator, left.end)
    return start < right.start ? [{ start, end: start + operator.length, instead: opposites[operator] }] : []
  }
  const instead = ({ end, start }, ...texts) => texts.map((instead) => ({ start, end, instead }))
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression":
      return node.operator in opposites ? between(node.left, node.right, node.operator) : []
    case "IfStatement":
    case "ConditionalExpression":
      return instead(node.test, "true", "false")
    case "UnaryExpression":
      return node.operator === "!" ? instead(node, text.slice(node.argument.start, node.argument.end)) : []
    case "ExpressionStatement":
      return instead(node, ";")
    case "Literal":
      if (typeof node.value === "boolean") return instead(node, String(!node.value))
      return typeof node.value === "number" ? instead(node, `(${node.raw} + 1)`) : []
    case "TaggedTemplateExpression":
      return node.tag.name === "sql" ? changesOfSql(node.quasi, text) : []
    default:
      return []
  }
}

const swaps = [
  [/(?<=\s)=(?=\s)/g, "<>"],
  [/<=/g, "<"],
  [/<(?![=>])/g, "<="],
  [/(?<!<)>(?!=)/g, ">="],
  [/\bis null\b/g, "is not null"],
  [/\bis not null\b/g, "is null"],
  [/\band\b/g, "or"],
  [/\bor\b/g, "and"],
  [/\bnot exists\b/g, "exists"],
  [/\bfor (no key )?update\b( of [\w, ]+)?/g, ""]
]

/** Of the SQL itself: what stands in `${}` is code, and was looked at as such. */
const changesOfSql = (quasi, text) => {
  const swapped = quasi.quasis.flatMap(({ end, start }) =>
    swaps.flatMap(([pattern, instead]) =>
      [...text.slice(start, end).matchAll(pattern)].map((found) => {
        const at = start + found.index
        return { start: at, end: at + found[0].length, instead }
      })
    )
  )
  const conditions = [...text.slice(quasi.start, quasi.end).matchAll(/^[ \t]+and .*$/gm)].flatMap((found) => {
    const balanced = [..."({"].every((open, at) => found[0].split(open).length === found[0].split(")}"[at]).length)
    const start = quasi.start + found.index
    const end = start + found[0].replace(/`.*$/, "").length
    return balanced ? [{ start, end, instead: "" }] : []
  })
  // An assignment is no condition.
  return [...swapped, ...conditions].filter(({ start }) => !/^\s*(set\b|[\w.]+ = )/.test(lineAt(text, start)))
}

const lineAt = (text, at) => text.slice(text.lastIndexOf("\n", at - 1) + 1, (text + "\n").indexOf("\n", at))

const changesOf = (file) => {
  const text = readFileSync(file, "utf8")
  const found = []
  const visit = (node) => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node?.type !== "string" || node.type.startsWith("TS")) return
    found.push(...changesOfNode(node, text))
    Object.values(node).forEach((child) => typeof child === "object" && visit(child))
  }
  visit(parseSync(file, text).program)
  return found.map((change) => ({ file, text, ...change }))
}

/** A copy of the house to change things in. */
const sandbox = () => {
  const folder = mkdtempSync(join(tmpdir(), "bridge-service-mutation-"))
  for (const name of [
    "src",
    "test",
    "migrations",
    "scripts",
    "cli",
    "docs",
    "bench",
    "package.json",
    "vitest.config.ts",
    "tsconfig.json"
  ])
    cpSync(name, join(folder, name), { recursive: true })
  symlinkSync(join(process.cwd(), "node_modules"), join(folder, "node_modules"))
  return folder
}

const notices = async (folder, tests) => {
  const flags = ["--bail=1", "--maxWorkers=1", "--reporter=dot", "--no-file-parallelism"]
  const runner = spawn(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...flags, ...tests], {
    cwd: folder,
    env: { ...process.env, ROUNDS: "2", MODEL_RUNS: "5", TEST_CLUSTER: JSON.stringify(cluster) },
    stdio: "ignore",
    timeout: patience
  })
  const [code] = await once(runner, "exit")
  return code !== 0
}

const { cluster, stop } = await makeCluster()
const folders = Array.from({ length: Number(values.at) }, sandbox)
process.on("exit", () => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })))
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void stop().then(() => process.exit(130)))

for (const name of positionals.length > 0 ? positionals : Object.keys(areas)) {
  const { files, tests } = areas[name]
  if (await notices(folders[0], tests)) throw new Error(`The tests of ${name} fail before anything is changed.`)
  const changes = files.flatMap(changesOf).filter((_, at) => at % Number(values.share) === 0)
  const waiting = [...changes]
  const survivors = []
  await Promise.all(
    folders.map(async (folder) => {
      for (let change = waiting.shift(); change !== undefined; change = waiting.shift()) {
        const { end, file, instead, start, text } = change
        writeFileSync(join(folder, file), text.slice(0, start) + instead + text.slice(end))
        if (!(await notices(folder, tests))) {
          survivors.push(change)
          const line = text.slice(0, start).split("\n").length
          process.stdout.write(
            `${file}:${line}: \`${text.slice(start, end).trim()}\` became \`${instead}\`: ${lineAt(text, start).trim()}\n`
          )
        }
        writeFileSync(join(folder, file), text)
      }
    })
  )
  const noticed = 1 - survivors.length / changes.length
  process.stdout.write(
    `${JSON.stringify({ area: name, changes: changes.length, noticed: Number(noticed.toFixed(3)), least })}\n`
  )
  if (noticed < least) process.exitCode = 1
}
await stop()
process.exit()
