// Which file may import which (docs/architecture.md), as the lint rule `house/layers`. `house/clock` and
// `house/environment` keep the clock and the environment behind one service each. test/docs/layers.test.ts breaks every
// rule once. no-restricted-imports cannot express this: a later override replaces an earlier one, and it does not see
// `import()`.
import { readFileSync } from "node:fs"
import { join, posix, relative, sep } from "node:path"

/**
 * The wings of src/ from the bottom up, and the folders of each wing in the same order. A file imports its own folder
 * and the folders below it. Folders in one inner list are on one level and do not import each other.
 */
const wings = {
  wire: [],
  platform: [
    "crypto",
    "secrets",
    "settings",
    "network",
    "sql",
    "metrics",
    "workers",
    "database",
    "proofs",
    "audit",
    "backups",
    "scan",
    "html",
    ["edge", "process"]
  ],
  push: [
    ["channels", "tokens", "outbox"],
    ["delivery", "admin"]
  ],
  operator: ["projects", "limits", "tokens"],
  bridges: ["identity", "possession", ["enrollment", "rotation"], "keys"],
  signin: ["sessions", "passkeys", "possession", "oauth", "access"],
  agents: [
    "continuity",
    "ranking",
    "embeddings",
    ["documents", "memory", "tasks"],
    ["decisions", "handover", "search", "transfer", "purge"],
    "mcp"
  ],
  people: [["channels", "erasure", "mobile", "operator", "site"], "console"]
}
const order = Object.keys(wings)

const library = /^[^/]/
const effect = /^effect(\/|$)/
const effectSql = /^effect\/sql(\/|$)/
const outside = /^\/(cli|test|bench|scripts)\//
/** The commands that operators may run from elsewhere; main.ts hands them to the server. */
const handedOver = "/cli/support/remote/Served.ts"
const top = /^\/src\/[^/]+$/
/** Tests of single statements, condition by condition. */
const ofStatements = /^\/test\/statements\//

/** The place of a file: `["bridges", "rotation"]`, or `["bridges"]` directly in the wing. */
const placeOf = (path) => /^\/src\/(.+)\/[^/]+$/.exec(path)?.[1].split("/").slice(0, 2) ?? []
const levelOf = (wing, folder) => wings[wing].findIndex((level) => [level].flat().includes(folder))

/**
 * The reason why `from` may not import `to`; undefined if it may. Paths start at the repository's root ("/src/wire/Ids.ts"),
 * libraries are named as imported ("effect/sql"). `holdsStatements` tells whether a file contains SQL, `speaksHttp`
 * whether the importing file handles requests.
 */
const forbidden = (from, to, { holdsStatements, speaksHttp }) => {
  const [wing, folder] = placeOf(from)
  const [toWing, toFolder] = placeOf(to)

  const mayUseStatements = toWing === "platform" || wing === toWing || top.test(from) || ofStatements.test(from)
  if (holdsStatements(to) && !mayUseStatements) {
    return "Statements are used within their wing only: call the wing's service."
  }
  if (!from.startsWith("/src/")) return undefined
  if (outside.test(to) && !(from === "/src/main.ts" && to === handedOver)) {
    return "Nothing in src/ imports the command line, a test, a benchmark or a script."
  }
  if (top.test(from)) return undefined
  if (top.test(to)) return "App.ts, Http.ts and Server.ts are the top: only main.ts, cli/ and tests import them."
  if (wing === "wire") {
    return (effect.test(to) && !effectSql.test(to)) || toWing === "wire"
      ? undefined
      : "wire/ is the contract: it imports only effect, and no SQL."
  }
  if (wing === "client") {
    return (library.test(to) && !effectSql.test(to)) || toWing === "wire" || toWing === "client"
      ? undefined
      : "client/ runs without the server: it imports only wire/ and libraries."
  }
  if (toWing === "client") return "client/ is for callers of the service, not for the service."
  if (speaksHttp && wing !== "platform" && (effectSql.test(to) || holdsStatements(to))) {
    return "A file that handles HTTP contains no SQL and imports none: call the service."
  }
  if (library.test(to)) return undefined
  if (order.indexOf(toWing) > order.indexOf(wing)) return `${wing}/ is below ${toWing}/ and must not import it.`
  if (wing !== toWing || folder === toFolder || folder === undefined || toFolder === undefined) return undefined
  return levelOf(wing, toFolder) < levelOf(wing, folder)
    ? undefined
    : `${wing}/${folder} is not above ${wing}/${toFolder}.`
}

const texts = new Map()
const textOf = (path) => {
  if (!texts.has(path)) {
    try {
      texts.set(path, readFileSync(path, "utf8"))
    } catch {
      // The compiler reports a wrong path.
      texts.set(path, "")
    }
  }
  return texts.get(path)
}

const layers = {
  create: (context) => {
    const from = "/" + relative(context.cwd, context.filename).split(sep).join("/")
    const holdsStatements = (path) =>
      path.startsWith("/src/") && /\bsql(<[^`]*>)?`/.test(textOf(join(context.cwd, path)))
    const speaksHttp = /"effect\/http(-api)?["/]/.test(context.sourceCode.text)
    const check = (node) => {
      const named = node.source?.value
      if (typeof named !== "string") return
      const to = named.startsWith(".") ? posix.join(from, "..", named) : named
      const message = forbidden(from, to, { holdsStatements, speaksHttp })
      if (message !== undefined) context.report({ node, message })
    }
    const [wing, folder] = placeOf(from)
    const known =
      wing === undefined ||
      wing === "client" ||
      (wing in wings && (wing === "wire" || folder === undefined || levelOf(wing, folder) >= 0))
    return {
      Program: ({ body }) => {
        if (known || body.length === 0) return
        context.report({
          node: body[0],
          message: `The folder ${[wing, folder].join("/")} has no row in scripts/layers.mjs.`
        })
      },
      ExportAllDeclaration: check,
      ExportNamedDeclaration: check,
      ImportDeclaration: check,
      ImportExpression: check,
      TSImportType: check
    }
  }
}

// The Effect diagnostics of tsc do not fit here: they also reject `new Date(instant)`, and miss a destructured env.
const clock = {
  create: (context) => {
    const refuse = (node) => context.report({ node, message: "Time comes from the database clock service." })
    return {
      NewExpression: (node) => {
        if (node.callee.name === "Date" && node.arguments.length === 0) refuse(node)
      },
      MemberExpression: (node) => {
        const owner = node.object.name ?? node.object.property?.name
        if (owner === "Date" && (node.property.name ?? node.property.value) === "now") refuse(node)
      }
    }
  }
}

const isEnv = ({ imported, key }) => (imported ?? key)?.name === "env"
const environment = {
  create: (context) => {
    const refuse = (node) =>
      context.report({ node, message: "The environment is read in platform/settings/Settings.ts." })
    return {
      ImportDeclaration: (node) => {
        if (/^(node:)?process$/.test(node.source.value) && node.specifiers.some(isEnv)) refuse(node)
      },
      VariableDeclarator: (node) => {
        if (node.init?.name === "process" && node.id.properties?.some(isEnv)) refuse(node)
      }
    }
  }
}

export default { meta: { name: "house" }, rules: { clock, environment, layers } }
