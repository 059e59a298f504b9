/** README.md: its commands exist, its walkthrough enrolls a Bridge, its tables list the folders and pages. */
import { assert, describe, it, layer } from "@effect/vitest"
import { execFile, spawn, spawnSync } from "node:child_process"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { promisify } from "node:util"
import { Context, Effect, Layer } from "effect"
import { packageRoot } from "../support/run/Root.ts"
import { authorizeQuery, Browser, callback } from "../support/agents/Agent.ts"
import { repositoryIn } from "../support/agents/Repository.ts"
import { checkout } from "../support/service/Checkout.ts"
import { blocks, read, rows } from "../support/run/Markdown.ts"
import { freePort } from "../support/network/FreePort.ts"
import { Person } from "../support/people/Console.ts"
import { end } from "../support/database/PostgresUser.ts"

const text = read("README.md")
const commands = blocks(text, "sh")
const { dependencies, devDependencies, scripts } = JSON.parse(read("package.json"))

const running = (...[program, args, options]: Parameters<typeof spawn>) =>
  Effect.acquireRelease(
    Effect.sync(() => spawn(program, args, { ...options, stdio: "ignore" })),
    (process) => end(process, "SIGTERM")
  )

const ready = async (url: string): Promise<void> => {
  const answer = await fetch(url).catch(() => undefined)
  if (answer?.status === 200) return
  await setTimeout(100)
  return ready(url)
}

/** The field names of a schema, read from its source file. */
const fieldsIn = (file: string, schema: string) =>
  [...new RegExp(`const ${schema} = Schema.Struct\\(\\{([^}]*)\\}`).exec(read(file))![1]!.matchAll(/^ {2}(\w+):/gm)]
    .map(([, field]) => field)
    .join(", ")

/** Lists that stay empty without a phone; their fields come from the source. */
const unmade = new Map([
  ["list-devices", fieldsIn("src/people/mobile/DeviceStore.ts", "Listed")],
  ["list-person-keys", fieldsIn("src/signin/passkeys/PersonKeyStore.ts", "PersonKey")],
  ["list-push-dead-letters", fieldsIn("src/push/admin/PushAdminStore.ts", "DeadLetter")]
])

/** A service in a fresh checkout, and the output of the page's commands. */
class Newcomer extends Context.Service<
  Newcomer,
  { readonly folder: string; readonly url: string; readonly printed: string }
>()("test/Newcomer") {
  static readonly layer = Layer.effect(
    Newcomer,
    Effect.gen(function* () {
      const folder = yield* checkout()
      const port = String(yield* freePort)
      yield* running("npm", ["start"], { cwd: folder, env: { ...process.env, SERVICE_PORT: port } })
      const url = `http://127.0.0.1:${port}`
      yield* Effect.promise(() => ready(`${url}/readyz`))
      const walk = commands.filter((block) => /first-bridge|^call /m.test(block)).join("\n")
      // npx caches an entry per folder it is called in; this cache is deleted with the folder.
      const env = { ...process.env, npm_config_cache: join(folder, ".npm") }
      const { stdout } = yield* Effect.promise(() =>
        promisify(execFile)("bash", ["-euc", walk.replaceAll("8787", port)], { cwd: folder, env })
      )
      return { folder, url, printed: stdout }
    })
  )
}

describe("README.md", () => {
  it.each(commands.map((block) => ({ block, first: block.split("\n")[0] })))(
    "has commands that bash can parse: $first",
    async ({ block }) => {
      const { stderr } = await promisify(execFile)("bash", ["-nc", block])
      assert.strictEqual(stderr, "")
    }
  )

  it("names scripts that exist", () => {
    const named = [...text.matchAll(/\bnpm (?:run (?:-s )?)?(\w[\w-]*)/g)].map(([, name]) => name!)
    assert.includeMembers(named, ["start", "test"])
    for (const name of named) if (!["ci", "install"].includes(name)) assert.property(scripts, name)
  })

  it("lists exactly the folders and pages that exist", () => {
    const folders = (of: string) =>
      readdirSync(join(packageRoot, of), { withFileTypes: true }).filter((entry) => entry.isDirectory())
    const top = folders(".").map(({ name }) => name)
    const code: ReadonlyArray<string> = [
      ...JSON.parse(read("tsconfig.json")).include,
      "migrations",
      "packages",
      "plugins",
      "deploy"
    ]
    const shown = [
      ...code.filter((name) => name !== "src" && top.includes(name)),
      ...folders("src").map(({ name }) => `src/${name}`)
    ]
    assert.sameMembers(
      rows(text).flatMap(({ Folder }) => (Folder === undefined ? [] : [Folder])),
      shown
    )
    const pages = rows(text).flatMap(({ Page }) => (Page === undefined ? [] : [/\((.*)\)/.exec(Page)![1]!]))
    assert.sameMembers(
      pages,
      readdirSync(join(packageRoot, "docs")).flatMap((name) => (name.endsWith(".md") ? `docs/${name}` : []))
    )
  })

  it("shows the console in both colour schemes, in pictures that load fast", () => {
    const pictures = [...text.matchAll(/ (?:src|srcset)="([^"]+)"/g)].map(([, path]) => path!)
    assert.deepStrictEqual(
      pictures,
      ["dark", "light"].map((scheme) => `docs/images/console-${scheme}.webp`)
    )
    const sizes = pictures.map((path) => statSync(join(packageRoot, path)).size)
    assert.isAbove(Math.min(...sizes), 10_000)
    assert.isBelow(sizes[0]! + sizes[1]!, 200_000)
  })

  it("names the versions that are installed", () => {
    const named = rows(text).flatMap(({ Used: used = "" }) => {
      const [, name, version] = /^`(.*)` ([\d.]+)$/.exec(used) ?? []
      return name === undefined ? [] : [[name, version]]
    })
    assert.deepInclude({ ...devDependencies, ...dependencies }, Object.fromEntries(named))
    assert.isAbove(named.length, 4)
  })
})

layer(Newcomer.layer, { timeout: "3 minutes" })("README.md, run from top to bottom,", (it) => {
  it.effect("enrolls a first Bridge", () =>
    Effect.gen(function* () {
      const { printed } = yield* Newcomer
      assert.match(printed, /^first-bridge +active /m)
    })
  )

  it.effect("lets one agent write what another reads, and asks a question that the console shows", () =>
    Effect.gen(function* () {
      const { folder, printed, url } = yield* Newcomer
      assert.match(printed, /Releases go out on \W*Tuesdays/)
      const { project_id } = JSON.parse(readFileSync(join(folder, "first-bridge/project.json"), "utf8"))
      const person = new Person(url, url)
      yield* person.post("/console/enter", { code: /\/console\/enter\?code=(\w+)/.exec(printed)![1]! })
      const { text: today } = yield* person.get(`/console/${project_id}`)
      for (const shown of ["Which region do we deploy to?", "Frankfurt", "Dublin"]) assert.include(today, shown)
    })
  )

  it.effect(
    "lists rows with exactly the fields that docs/reference.md names",
    (context) =>
      Effect.gen(function* () {
        if (spawnSync("git", ["--version"]).status !== 0) return context.skip("needs git")
        const { folder, url } = yield* Newcomer
        const { project_id } = JSON.parse(readFileSync(join(folder, "first-bridge/project.json"), "utf8"))
        const env = { ...process.env, XDG_CONFIG_HOME: join(folder, "config") }
        const admin = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
          const { stdout } = yield* Effect.promise(() =>
            promisify(execFile)(join(folder, "cli/service-admin.mjs"), [...args, "--json"], { cwd: folder, env })
          )
          return JSON.parse(stdout)
        })

        const operatorFile = join(folder, "operator.token")
        yield* admin("create-operator-token", "--label", "Ada", "--scope", "operator:read", "--out", operatorFile)
        yield* admin("set-profile", "--name", "here", "--url", url, "--token-file", operatorFile)
        // The walkthrough creates no grant, no client of the operator, no session of the console, no pinned document, no
        // channel, no entry and no task.
        const tokenFile = join(folder, "first-bridge/agent.token")
        const token = readFileSync(tokenFile, "utf8").trim()
        const smoke = ["scripts/smoke.ts", "--base-url", url, "--token-file", tokenFile]
        yield* Effect.promise(() => promisify(execFile)(process.execPath, smoke, { cwd: folder }))
        const { client_id } = yield* admin("create-oauth-client", "--name", "An agent", "--redirect-uri", callback)
        yield* new Browser(url).consent(authorizeQuery({ client_id }), token)
        yield* Effect.promise(() =>
          fetch(`${url}/console/sign-in`, {
            method: "POST",
            redirect: "manual",
            headers: { origin: url },
            body: new URLSearchParams({ project_token: token })
          })
        )
        yield* admin(
          "create-channel",
          "--project",
          project_id,
          "--kind",
          "ntfy",
          "--url",
          "https://ntfy.sh/first-bridge"
        )
        const repository = join(folder, "guide")
        const commit = repositoryIn(repository).commit({ "guide.md": "# Guide\n" })
        const at = ["--repository", repository, "--label", "me/guide", "--commit", commit, "--path", "guide.md"]
        yield* admin("pin-document", "--project", project_id, ...at)

        const lists = rows(read("docs/reference.md")).filter(({ Command }) => Command?.startsWith("list-"))
        assert.isNotEmpty(lists)
        const check = Effect.fnUntraced(function* ({ Command, Flags, "--json": fields }: (typeof lists)[number]) {
          const about = Flags!.includes("--project") ? ["--project", project_id] : []
          const { items } = yield* admin(Command!, ...about)
          const shown = unmade.get(Command!) ?? Object.keys(items[0]).join(", ")
          assert.strictEqual(shown, fields, Command)
        })
        yield* Effect.forEach(lists, check, { concurrency: 2 })
      }),
    { timeout: 120_000 }
  )
})
