/** Opens an address in the browser of the person at this terminal, if there is one. */
import { Config, Effect, Option } from "effect"
import { spawn } from "node:child_process"

const screen = Config.option(
  Config.NonEmptyString("WAYLAND_DISPLAY").pipe(Config.orElse(() => Config.NonEmptyString("DISPLAY")))
)

/** The program that opens addresses; none without a terminal or a screen. */
const opener = Effect.gen(function* () {
  if (!process.stdout.isTTY) return Option.none()
  if (process.platform === "darwin") return Option.some("open")
  return Option.as(yield* screen, "xdg-open")
}).pipe(Effect.orElseSucceed(Option.none<string>))

/** Does nothing if there is no browser: the address is printed in any case. */
export const openInBrowser = (url: string) =>
  Effect.map(opener, (program) => {
    if (Option.isNone(program)) return
    spawn(program.value, [url], { detached: true, stdio: "ignore" })
      .on("error", () => {})
      .unref()
  })
