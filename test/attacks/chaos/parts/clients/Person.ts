/**
 * The person beside a client: a plain HTTP client answers the consent page that the client opens. A program in PATH and in
 * BROWSER stands for the browser and writes down each address.
 */
import { spawn } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"

export interface Desk {
  readonly home: string
  readonly env: NodeJS.ProcessEnv
  /** The project token that the person enters. */
  readonly token: string
  /** How often this person pressed Allow. */
  allowed: number
}

/** A home folder in which nothing is configured. `commands`: the folder of the client's commands. */
export const desk = (home: string, commands: string, token: string): Desk => {
  const bin = join(home, "bin")
  mkdirSync(bin, { recursive: true })
  const opened = join(home, "opened")
  for (const name of ["xdg-open", "open", "browser"]) {
    writeFileSync(join(bin, name), `#!/bin/sh\nprintf '%s\\n' "$@" >> "${opened}"\n`)
    chmodSync(join(bin, name), 0o755)
  }
  const env = {
    PATH: `${bin}:${commands}:${process.env["PATH"]}`,
    HOME: home,
    XDG_CONFIG_HOME: join(home, ".config"),
    BROWSER: join(bin, "browser"),
    DISPLAY: ":0",
    NO_COLOR: "1",
    // Without a terminal Inspector opens no browser.
    MCP_AUTO_OPEN_ENABLED: "true",
    // Without a keychain it forgets the sign-in.
    MCP_INSPECTOR_SECRET_STORE: "file"
  }
  return { home, env, token, allowed: 0 }
}

/** Answers the consent page at this address with the token and Allow, then follows the redirect to the client. */
const allow = async (desk: Desk, url: string) => {
  const { origin } = new URL(url)
  const cookies = new Map<string, string>()
  const ask = async (path: string, form?: Readonly<Record<string, string>>) => {
    const response = await fetch(new URL(path, origin), {
      method: form === undefined ? "GET" : "POST",
      redirect: "manual",
      headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; "), origin },
      ...(form !== undefined && { body: new URLSearchParams(form) })
    })
    for (const set of response.headers.getSetCookie()) {
      const [name = "", value = ""] = set.split(";")[0]!.split("=")
      cookies.set(name, value)
    }
    return { location: response.headers.get("location"), text: await response.text() }
  }
  const fieldsOf = (page: string) =>
    Object.fromEntries(
      [...page.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [name!, value!])
    )
  const begun = await ask(url)
  if (begun.location === null) throw new Error(`No consent page: ${/<h1>([^<]*)/.exec(begun.text)?.[1]}`)
  const asking = await ask(begun.location)
  const entered = await ask("/oauth/consent", { ...fieldsOf(asking.text), project_token: desk.token })
  const consent = await ask(entered.location ?? begun.location)
  const access = /name="access" value="(\w+)" checked/.exec(consent.text)?.[1]
  const decided = await ask("/oauth/consent", {
    ...fieldsOf(consent.text),
    decision: "allow",
    ...(access !== undefined && { access })
  })
  if (decided.location === null) throw new Error("Allow led nowhere")
  // A person takes longer than this script: mcp-remote opens the browser before it listens.
  await pause(1000)
  await (await fetch(decided.location)).text()
  desk.allowed += 1
}

export interface Outcome {
  readonly code: number | null
  readonly output: string
}

/** Runs a command; whenever it asks for the browser, the person allows. It is stopped after a minute. */
export const run = async (
  desk: Desk,
  command: string,
  args: ReadonlyArray<string>,
  converse: (child: ReturnType<typeof spawn>) => Promise<void> = async (child) => void child.stdin?.end()
): Promise<Outcome> => {
  const child = spawn(command, args, { env: desk.env, cwd: desk.home, detached: true })
  const seen = new Set<string>()
  let output = ""
  const opened = join(desk.home, "opened")
  const known = existsSync(opened) ? readFileSync(opened, "utf8").length : 0
  const failures: Array<string> = []
  const look = () => {
    const text = output + (existsSync(opened) ? readFileSync(opened, "utf8").slice(known) : "")
    for (const [url] of text.matchAll(/http:\/\/127\.0\.0\.1:\d+\/authorize\?[\w%.~+&=:-]+/g)) {
      const { searchParams } = new URL(url)
      const state = searchParams.get("state")
      // A terminal breaks a long address into lines; the browser gets the whole one.
      if (state === null || !searchParams.has("code_challenge_method") || seen.has(state)) continue
      seen.add(state)
      allow(desk, url).catch((error: unknown) => failures.push(String(error)))
    }
  }
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()))
  const looking = setInterval(look, 100)
  const stop = () => {
    try {
      process.kill(-child.pid!, "SIGKILL")
    } catch {
      // It has ended.
    }
  }
  const stopping = setTimeout(stop, 60_000)
  const ended = new Promise<number | null>((resolve) => {
    child.once("exit", resolve)
    child.once("error", (error) => {
      output += String(error)
      resolve(null)
    })
  })
  await Promise.race([converse(child), ended])
  const code = await ended
  clearInterval(looking)
  clearTimeout(stopping)
  stop()
  return { code, output: [output, ...failures].join("\n") }
}
