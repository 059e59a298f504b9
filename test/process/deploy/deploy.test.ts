/** Dockerfile, systemd unit and compose file name only existing files and settings; a bundle knows its commit. */
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { parseAllDocuments } from "yaml"
import { version } from "../../../src/platform/settings/Package.ts"
import { packageRoot } from "../../support/run/Root.ts"
import { read, rows, sections } from "../../support/run/Markdown.ts"

const settings = rows(sections(read("docs/reference.md"), 2).get("Settings")!).map(({ Name }) => Name!)
const named = (text: string) => [
  ...new Set([...text.matchAll(/\b(?:SERVICE_[A-Z_]+|DATABASE_URL)\b/g)].map(([name]) => name))
]
const dockerfile = read("Dockerfile")
const unit = read("deploy/bridge-service.service")
const compose = read("deploy/compose.yaml")

/** The pages of /docs that are not in docs/. */
const pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

describe("Dockerfile", () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, paths]) => paths!.split(" "))

  it("copies only existing paths, and .dockerignore admits them", () => {
    assert.isAbove(copied.length, 5)
    const allowed = [...read(".dockerignore").matchAll(/^!(.+)$/gm)].map(([, path]) => path!)
    for (const path of copied) {
      assert.isTrue(existsSync(join(packageRoot, path)), path)
      assert.isTrue(
        allowed.some((name) => `${path}/`.startsWith(`${name}/`)),
        path
      )
    }
  })

  it("runs as an unprivileged account, on a Node version that the package allows, with a health check", () => {
    assert.match(dockerfile, /^USER node\n[^]*^CMD \["node", /m)
    assert.match(dockerfile, /^CMD \["node", "--disable-sigusr1", "--max-semi-space-size=16", /m)
    assert.match(dockerfile, /^HEALTHCHECK [^]*?healthz/m)
    assert.match(dockerfile, /^ARG NODE_IMAGE=node:24-/m)
    const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image)
    assert.deepEqual(new Set(bases), new Set(["${NODE_IMAGE}"]))
  })
})

describe("the images", () => {
  it("are named by digest, with one default in Dockerfile and compose file", () => {
    const [, node] = /^ARG NODE_IMAGE=(\S+)$/m.exec(dockerfile)!
    assert.include(compose, `NODE_IMAGE: \${NODE_IMAGE:-${node}}`)
    const images = [...compose.matchAll(/^ {4}image: (.+)$/gm)].map(([, image]) => image!)
    assert.isNotEmpty(images)
    for (const image of [`\${NODE_IMAGE:-${node}}`, ...images])
      assert.match(image, /^\$\{[A-Z]+_IMAGE:-[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}\}$/)
  })

  it("contain the bill of materials of their release", () => {
    assert.match(dockerfile, /npm run -s sbom > dist\/sbom\.json$/m)
  })
})

describe("the unit and the compose file", () => {
  it.each([
    ["Dockerfile", dockerfile],
    ["deploy/bridge-service.service", unit],
    ["deploy/compose.yaml", compose],
    ["deploy/kubernetes.yaml", read("deploy/kubernetes.yaml")],
    ["deploy/bridge-service-audit.service", read("deploy/bridge-service-audit.service")],
    ["deploy/bridge-service-backup.service", read("deploy/bridge-service-backup.service")]
  ])("%s names only existing settings", (_, text) => {
    assert.isNotEmpty(named(text))
    assert.includeMembers(settings, named(text))
  })

  it("starts a program of the package, and lets the service stop PostgreSQL itself", () => {
    const [, program] =
      /^ExecStart=node --disable-sigusr1 --max-semi-space-size=16 node_modules\/\.bin\/(\S+) start$/m.exec(unit) ?? []
    assert.property(JSON.parse(read("package.json")).bin, program!)
    assert.match(unit, /^KillMode=mixed$/m)
    assert.match(unit, /^RestartPreventExitStatus=78$/m)
  })

  it("limit the commands as they limit the service", () => {
    const limits = (text: string) =>
      text.match(
        /^(?:(?:Protect|Private|Restrict|SystemCall|Lock)\w+|\w*Capabilit\w+|NoNewPrivileges|LimitCORE|UMask)=.*$/gm
      )
    assert.isAbove(limits(unit)!.length, 20)
    for (const name of ["audit", "backup"])
      assert.sameMembers(limits(read(`deploy/bridge-service-${name}.service`))!, limits(unit)!)
  })

  it("write no core dump", () => {
    assert.match(unit, /^LimitCORE=0$/m)
    assert.match(compose, /^    ulimits:\n      core: 0$/m)
  })
})

describe("deploy/kubernetes.yaml", () => {
  const objects = parseAllDocuments(read("deploy/kubernetes.yaml")).map((document) => document.toJS())
  const [pods] = objects.filter(({ kind }) => kind === "StatefulSet").map(({ spec }) => spec.template.spec)

  it("is valid for the schemas of Kubernetes", async () => {
    assert.sameMembers(
      objects.map(({ kind }) => kind),
      ["Service", "Service", "PodDisruptionBudget", "StatefulSet"]
    )
    for (const object of objects) {
      const models = await import(`kubernetes-models/${object.apiVersion}`)
      new models[object.kind](object).validate()
    }
  })

  it("uses the image's account, folder and port, and gives requests in flight their time", () => {
    const [container] = pods.containers
    assert.strictEqual(container.ports[0].containerPort, Number(/^EXPOSE (\d+)$/m.exec(dockerfile)![1]))
    assert.include(
      container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath),
      /^VOLUME (\S+)$/m.exec(dockerfile)![1]
    )
    assert.isTrue(pods.securityContext.runAsNonRoot)
    assert.isAtLeast(pods.terminationGracePeriodSeconds, 5 + 10)
  })

  it("leaves the instance id to the Secret or the database, which all replicas share, as grants belong to one", () => {
    assert.notInclude(JSON.stringify(pods), "SERVICE_INSTANCE_ID")
  })
})

describe("a bundle", () => {
  const folder = mkdtempSync(join(tmpdir(), "service-build-"))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it("contains the commit that BUILD_COMMIT names", { timeout: 60_000 }, () => {
    for (const path of ["package.json", "tsconfig.json", "src", "cli", "docs", "examples", "migrations", "scripts"]) {
      cpSync(join(packageRoot, path), join(folder, path), { recursive: true })
    }
    for (const path of pages) cpSync(join(packageRoot, path), join(folder, path))
    symlinkSync(join(packageRoot, "node_modules"), join(folder, "node_modules"))
    const commit = "0123456789abcdef0123456789abcdef01234567"
    const run = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
      execFileSync(process.execPath, args, {
        cwd: folder,
        encoding: "utf8",
        env: { PATH: process.env["PATH"], ...env }
      })
    run(["scripts/build.mjs"], { BUILD_COMMIT: commit })
    const bundled = readdirSync(join(folder, "dist")).map((file) => readFileSync(join(folder, "dist", file), "utf8"))
    assert.isTrue(bundled.some((text) => text.includes(`"${commit.slice(0, 12)}"`)))
    assert.include(run(["dist/service-admin.mjs", "--version"]), version)
    for (const path of [...pages, "docs/run.md"]) {
      const [title = ""] = read(path).split("\n")
      assert.isTrue(
        bundled.some((text) => text.includes(title)),
        path
      )
    }
  })
})
