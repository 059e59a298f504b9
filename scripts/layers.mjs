// Who may import what (docs/architecture.md), as the lint rule `house/layers`; the clock and the environment each have one
// door, `house/clock` and `house/environment`. test/docs/layers.test.ts seeds a violation of every sentence below.
// Not no-restricted-imports: there a later override replaces an earlier one, nothing can be allowed by name, and
// `import()` goes unseen.
import { posix, relative, sep } from "node:path"

/** Domain -> the domains it may use. A leaf is open to every domain and uses none but audit. */
const domains = {
  projects: [],
  audit: [],
  bridge: [],
  enrollment: ["bridge"],
  rotation: ["bridge"],
  oauth: [],
  access: ["oauth", "bridge"],
  documents: ["access"],
  continuity: ["access", "documents"],
  push: [],
  mobile: ["access", "oauth", "push", "continuity"],
  mcp: ["access", "oauth", "continuity", "documents"],
  site: ["oauth", "mcp", "continuity", "documents"]
}
const leaf = /^\/src\/(projects\/|audit\/|push\/Outbox\.ts$|site\/(Html|Page|Style)\.ts$)/

/** The other folders of src: below the domains, except client/, which stands beside them. */
const rooms = ["wire", "crypto", "database", "edge", "metrics", "client"]

const effect = /^effect(\/|$)/
const effectHttp = /^effect\/http(-api)?(\/|$)/
const library = /^[^/]/
const outside = /^\/(cli|test|bench|scripts)\//
const top = /^\/src\/(App|main)\.ts$/
const wire = /^\/src\/wire\//
const contract = /^\/src\/((?!wire\/)[^/]+\/)?(Api|Errors)\.ts$/
const http = /^\/src\/([^/]+\/)?\w*Http\.ts$/
const store = /^\/src\/[^/]+\/\w*Store\.ts$/
const client = /^\/src\/client\//
const rowDecoder = /^\/src\/bridge\/(?!(Api|Bridges|Errors|Http|Store)\.ts$)/
const ownsIdentity = /^\/src\/(bridge|enrollment|rotation)\//
const domainOf = (path) => Object.keys(domains).find((domain) => path.startsWith(`/src/${domain}/`))

/**
 * Why the file may not import that, or undefined when it may. Files are written from the top of the repository
 * ("/src/wire/Ids.ts"), libraries by their name ("effect/sql").
 */
const forbidden = (from, to) => {
  const is = (...kinds) => kinds.some((kind) => kind.test(to))
  const [domain, other] = [domainOf(from), domainOf(to)]

  if (is(store) && domain !== other) return "A Store.ts is imported by its own domain only: ask the domain's service."
  if (!from.startsWith("/src/")) return undefined
  if (is(outside)) return "Nothing in src/ imports the command line, a test, a benchmark or a script."
  if (wire.test(from)) return is(effect, wire) ? undefined : "wire/ knows nobody: only effect."
  if (contract.test(from)) {
    return is(effect, wire, contract)
      ? undefined
      : "Api.ts and Errors.ts are shareable: only effect, wire/, other Api.ts and Errors.ts."
  }
  if (client.test(from)) {
    return is(library, wire, contract, client, /^\/src\/crypto\//)
      ? undefined
      : "client/ runs without the server: only Api.ts, Errors.ts, wire/, crypto/ and libraries."
  }
  if (store.test(from)) {
    return (is(effect, wire, store) && !is(effectHttp)) || (ownsIdentity.test(from) && is(rowDecoder))
      ? undefined
      : "A Store.ts knows tables: only effect, effect/sql, wire/, stores of its domain and the row decoders of bridge/."
  }
  if (top.test(from)) return undefined
  if (is(top)) return "App.ts is the top of the graph: only main.ts, cli/ and tests import it."
  if (is(client)) return "client/ is for whoever calls the service, not for the service."
  if (from === "/src/Http.ts") return undefined
  if (is(http) && !(http.test(from) && other === domain))
    return "An Http.ts is mounted by src/Http.ts and imported by nothing else than another one of its domain."
  if (domain === undefined) {
    return other === undefined || is(contract)
      ? undefined
      : "What is no domain stands below the domains: of theirs, only Api.ts and Errors.ts."
  }
  if (!http.test(from) && is(effectHttp, /^\/src\/Api\.ts$/))
    return "Only the Http.ts and Api.ts of a domain know HTTP."
  if (other === undefined || other === domain) return undefined
  if (leaf.test(from) && other !== "audit") {
    return "projects/, audit/, push/Outbox.ts and the page of site/ are leaves: they import no other domain but audit/."
  }
  return is(leaf) || domains[domain].includes(other)
    ? undefined
    : `${domain}/ does not stand above ${other}/: see the table in scripts/layers.mjs.`
}

const layers = {
  create: (context) => {
    const from = "/" + relative(context.cwd, context.filename).split(sep).join("/")
    const see = (node) => {
      const named = node.source?.value
      if (typeof named !== "string") return
      const message = forbidden(from, named.startsWith(".") ? posix.join(from, "..", named) : named)
      if (message !== undefined) context.report({ node, message })
    }
    const folder = /^\/src\/([^/]+)\//.exec(from)?.[1]
    return {
      Program: ({ body }) => {
        if (folder === undefined || folder in domains || rooms.includes(folder) || body.length === 0) return
        context.report({ node: body[0], message: `The folder ${folder}/ has no row in scripts/layers.mjs.` })
      },
      ExportAllDeclaration: see,
      ExportNamedDeclaration: see,
      ImportDeclaration: see,
      ImportExpression: see,
      TSImportType: see
    }
  }
}

// What the Effect diagnostics of tsc leave open: they refuse `new Date(instant)` too, and miss an env taken apart.
const clock = {
  create: (context) => {
    const refuse = (node) => context.report({ node, message: "Time comes from the database clock service." })
    return {
      NewExpression: (node) => {
        if (node.callee.name === "Date" && node.arguments.length === 0) refuse(node)
      },
      MemberExpression: (node) => {
        const of = node.object.name ?? node.object.property?.name
        if (of === "Date" && (node.property.name ?? node.property.value) === "now") refuse(node)
      }
    }
  }
}

const isEnv = ({ imported, key }) => (imported ?? key)?.name === "env"
const environment = {
  create: (context) => {
    const refuse = (node) => context.report({ node, message: "The environment is read in Config.ts." })
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
