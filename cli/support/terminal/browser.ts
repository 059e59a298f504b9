/** Opens an address in the browser of the person at this terminal, if there is one. */
import { Config, Effect, Option } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

const screen = Config.option(
  Config.NonEmptyString("WAYLAND_DISPLAY").pipe(Config.orElse(() => Config.NonEmptyString("DISPLAY")))
)

/** The program that opens addresses; none without a terminal or a screen. */
const opener = Effect.gen(function* () {
  if (!process.stdout.isTTY) return Option.none()
  if (process.platform === "darwin") return Option.some("open")
  return Option.as(yield* screen, "xdg-open")
}).pipe(Effect.orElseSucceed(Option.none<string>))

/**
 * Opens a page of its own that leads there, and removes it after a minute: every account of the machine sees the arguments
 * of a program, and the address can hold a secret. The page is in the home folder, because a browser in a sandbox sees no
 * other. Does nothing if there is no browser: the address is printed in any case.
 */
export const openInBrowser = (url: string) =>
  Effect.map(opener, (program) => {
    if (Option.isNone(program)) return
    try {
      const folder = mkdtempSync(join(homedir(), "bridge-service-"))
      const page = `<!doctype html><meta http-equiv="refresh" content="0; url=${new URL(url).href}">\n`
      writeFileSync(join(folder, "open.html"), page, { mode: 0o600 })
      const opened = '"$0" "$1/open.html"; sleep 60; rm -r "$1"'
      spawn("/bin/sh", ["-c", opened, program.value, folder], { detached: true, stdio: "ignore" })
        .on("error", () => {})
        .unref()
    } catch {
      // The home folder cannot be written.
    }
  })
