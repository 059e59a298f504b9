/** Tries each backup that the service makes by itself, as an operator would: restores it into a scratch database. */
import { Context, Effect, Option } from "effect"
import * as fs from "node:fs"
import { join } from "node:path"
import { Backups } from "../../../../../src/platform/backups/Backups.ts"
import type { Ground } from "./Ground.ts"

export const makeTrials = ({ on, replicas }: Pick<Ground, "on" | "replicas">, folder: string) => {
  const backups = Context.get(on.services, Backups)
  const tried = new Map<string, string>()
  const failed: Array<string> = []

  const untried = () =>
    fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => name.endsWith(".backup") && !tried.has(name)) : []
  /** One that cannot be tried, because the database is away or another process tries it, is tried in the next turn. */
  const tryOne = (name: string) =>
    backups.verify(Option.some(join(folder, name))).pipe(
      Effect.map(({ outcome }) => tried.set(name, outcome)),
      Effect.catchTag("BackupNotGood", ({ message }) =>
        Effect.sync(() => {
          tried.set(name, "not good")
          failed.push(message)
        })
      ),
      Effect.ignore
    )
  const turn = Effect.suspend(() => Effect.forEach(untried(), tryOne, { discard: true }))

  /** Those that the replicas say they have made. */
  const made = () =>
    Object.values(replicas)
      .flatMap(({ output }) => output.filter((line) => line.includes("A backup was made")))
      .flatMap((line) => /bridge-service-[\dTZ-]{24}\.backup/.exec(line) ?? [])

  return {
    trying: Effect.forever(Effect.delay(turn, "2 seconds")),
    settled: Effect.repeat(Effect.delay(turn, "1 second"), { until: () => untried().length === 0, times: 30 }),
    figures: () => ({
      backups: made().length,
      restored: [...tried.values()].filter((one) => one === "restored").length
    }),
    violations: () => [
      ...failed,
      ...made().flatMap((name) => (tried.has(name) ? [] : [`${name} was not tried`])),
      ...(made().length === 0 ? ["no backup was made"] : [])
    ]
  }
}
