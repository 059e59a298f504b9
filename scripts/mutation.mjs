// `npm run mutation [area ...] [--share N] [--at N]`: mutation testing. Each mutant changes one thing in the code of an area
// (an operator, a condition, a statement, a line of SQL) and runs the area's tests. Mutants that no test kills survive and
// are printed. Exit code 1 if fewer than 85 % of an area's mutants are killed. `--share 4` tries every fourth mutant,
// `--at 2` runs two at a time.
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

/** The fastest tests first: the first failure ends the run. */
const areas = {
  tokens: {
    files: filesOf("platform/crypto", "Tokens Derivation"),
    tests: testsOf("platform/crypto/tokens platform/crypto/derivation")
  },
  rotation: {
    files: filesOf(
      "bridges/rotation",
      "TokenCheck prepare PrepareStore confirmOrAbort ConfirmOrAbortStore Rotation TokenStore RotationStore"
    ),
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
const threshold = 0.85
const timeout = 180_000

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { share: { type: "string", default: "1" }, at: { type: "string", default: String(availableParallelism()) } }
})
const unknown = positionals.filter((name) => !(name in areas))
if (unknown.length > 0) {
  process.stderr.write(`Unknown area: ${unknown.join(", ")}. Choose from: ${Object.keys(areas).join(", ")}.\n`)
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

/** A mutant is a range of the text and its replacement. */
const mutantsOfNode = (node, text) => {
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
      return node.tag.name === "sql" ? mutantsOfSql(node.quasi, text) : []
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

/** Mutates the SQL only; expressions in `${}` are code and are mutated as such. */
const mutantsOfSql = (quasi, text) => {
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
  // `set a = b` is an assignment, not a condition.
  return [...swapped, ...conditions].filter(({ start }) => !/^\s*(set\b|[\w.]+ = )/.test(lineAt(text, start)))
}

const lineAt = (text, at) => text.slice(text.lastIndexOf("\n", at - 1) + 1, (text + "\n").indexOf("\n", at))

const mutantsOf = (file) => {
  const text = readFileSync(file, "utf8")
  const found = []
  const visit = (node) => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node?.type !== "string" || node.type.startsWith("TS")) return
    found.push(...mutantsOfNode(node, text))
    Object.values(node).forEach((child) => typeof child === "object" && visit(child))
  }
  visit(parseSync(file, text).program)
  return found.map((mutant) => ({ file, text, ...mutant }))
}

/** A copy of the repository to mutate. */
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

const testsFail = async (folder, tests) => {
  const flags = ["--bail=1", "--maxWorkers=1", "--reporter=dot", "--no-file-parallelism"]
  const runner = spawn(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...flags, ...tests], {
    cwd: folder,
    env: { ...process.env, ROUNDS: "2", MODEL_RUNS: "5", TEST_CLUSTER: JSON.stringify(cluster) },
    stdio: "ignore",
    timeout
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
  if (await testsFail(folders[0], tests))
    throw new Error(`The tests of ${name} fail on unchanged code; fix them first.`)
  const mutants = files.flatMap(mutantsOf).filter((_, at) => at % Number(values.share) === 0)
  const waiting = [...mutants]
  const survivors = []
  await Promise.all(
    folders.map(async (folder) => {
      for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
        const { end, file, instead, start, text } = mutant
        writeFileSync(join(folder, file), text.slice(0, start) + instead + text.slice(end))
        if (!(await testsFail(folder, tests))) {
          survivors.push(mutant)
          const line = text.slice(0, start).split("\n").length
          process.stdout.write(
            `${file}:${line}: \`${text.slice(start, end).trim()}\` became \`${instead}\`: ${lineAt(text, start).trim()}\n`
          )
        }
        writeFileSync(join(folder, file), text)
      }
    })
  )
  const killed = 1 - survivors.length / mutants.length
  process.stdout.write(
    `${JSON.stringify({ area: name, mutants: mutants.length, killed: Number(killed.toFixed(3)), threshold })}\n`
  )
  if (killed < threshold) process.exitCode = 1
}
await stop()
process.exit()
