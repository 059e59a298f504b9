/**
 * Two replicas make backups of their own every second, on a small disk, under load. Whichever writes is killed in the
 * middle; the newest backup is damaged; the disk fills up.
 *
 * Never two drafts at once. No good backup goes before enough newer ones are there. A damaged one is at once no longer
 * good. While the disk of the backups is full no request fails, and later a backup succeeds again. What counts as good in
 * the end is restored elsewhere and holds what was acknowledged before it.
 *
 * A disk of its own needs root (a tmpfs). Without root the disk is not filled; `disk` in the figures tells.
 */
import { Context, Effect, Option } from "effect"
import * as fs from "node:fs"
import { join } from "node:path"
import { Backups } from "../../../../src/platform/backups/Backups.ts"
import { admin, awaiting, beside, chaos, draw, ledger, scratch, server, size, sliced } from "../harness.ts"
import { makeLoad } from "../parts/Load.ts"
import { fillDisk, smallDisk } from "../parts/database/SmallDisk.ts"

const keep = 3
const kills = size(5, 1)
const damages = size(2, 1)
const fulls = size(1, 0)

const seen = { drafts: 0, most_drafts: 0, kills: 0, damages: 0, fulls: 0 }

chaos(
  "backups",
  () => seen,
  Effect.gen(function* () {
    const folder = yield* scratch
    const disk = join(folder, "disk")
    fs.mkdirSync(disk, { mode: 0o700 })
    const mounted = yield* smallDisk(disk, "size=64m,mode=0700")
    const settings = {
      SERVICE_BACKUP_DIR: join(disk, "backups"),
      SERVICE_BACKUP_EVERY_SECONDS: "1",
      SERVICE_BACKUP_KEEP: `${keep}`
    }
    const one = yield* server(folder, settings)
    const two = yield* server(folder, settings)
    const on = yield* beside(folder, one, settings)
    const notes = yield* ledger(folder)
    const load = yield* makeLoad(on, notes, { bridges: size(6, 1), agents: size(6, 1) })
    const violations: Array<string> = []
    const backups = Effect.map(Context.get(on.services, Backups).state, Option.getOrThrow)

    const names = () => {
      try {
        return fs.readdirSync(settings.SERVICE_BACKUP_DIR).toSorted()
      } catch {
        return []
      }
    }
    const isWhole = (name: string) => name.endsWith(".backup")
    const path = (name: string) => join(settings.SERVICE_BACKUP_DIR, name)

    const damaged = new Set<string>()
    let before: ReadonlyArray<string> = []
    let draft: string | undefined
    const watch = Effect.sync(() => {
      const now = names()
      const drafts = now.filter((name) => name.endsWith(".backup.partial"))
      if (drafts[0] !== undefined && drafts[0] !== draft) seen.drafts++
      draft = drafts[0]
      seen.most_drafts = Math.max(seen.most_drafts, drafts.length)
      const whole = now.filter(isWhole)
      for (const name of before) {
        if (whole.includes(name) || damaged.has(name)) continue
        const newer = whole.filter((other) => other > name && !damaged.has(other)).length
        if (newer < keep) violations.push(`${name} went although only ${newer} newer ones were there`)
      }
      before = whole
    })
    yield* Effect.forkScoped(Effect.forever(Effect.delay(watch, "2 millis")))

    /** Waits for a good backup that was begun after this moment. */
    const anotherGood = (why: string) =>
      Effect.suspend(() => {
        const from = Date.now()
        return awaiting(
          `a good backup ${why}`,
          backups.pipe(
            Effect.delay("50 millis"),
            Effect.repeat({ until: ({ last_good_at }) => (last_good_at?.getTime() ?? 0) > from }),
            Effect.timeoutOrElse({
              duration: sliced ? "60 seconds" : "15 seconds",
              orElse: () =>
                Effect.andThen(
                  Effect.sync(() => violations.push(`no good backup ${why}`)),
                  backups
                )
            })
          )
        )
      })

    const killing = Effect.gen(function* () {
      yield* Effect.repeat(Effect.sleep("1 millis"), { until: () => draft !== undefined })
      yield* Effect.sleep(draw() * 20)
      seen.kills++
      yield* Effect.all([one.killAndRestart, two.killAndRestart], { concurrency: 2 })
    })

    const damaging = Effect.gen(function* () {
      const { last_good_at } = yield* anotherGood("to damage")
      for (const name of names().filter(isWhole)) {
        damaged.add(name)
        const bytes = fs.readFileSync(path(name))
        bytes[Math.floor(draw() * bytes.length)]! ^= 1
        fs.writeFileSync(path(name), bytes)
      }
      seen.damages++
      const after = yield* backups
      if (last_good_at !== null && after.last_good_at !== null && after.last_good_at <= last_good_at)
        violations.push("a damaged backup counts as good")
    })

    const filling = Effect.gen(function* () {
      yield* anotherGood("after all were damaged, before the disk is full")
      const from = performance.now()
      const filler = join(disk, "filler")
      yield* fillDisk(filler)
      seen.fulls++
      yield* Effect.sleep(size(4000, 1200))
      if ((yield* backups).good === 0) violations.push("the full disk left no good backup")
      fs.rmSync(filler)
      const failed = load.exchanges.filter(({ at, outcome }) => at >= from && !/^20\d$/.test(outcome))
      if (failed.length > 0) violations.push(`the full disk made ${failed.length} requests fail: ${failed[0]!.outcome}`)
    })

    const acks = yield* load.during(
      Effect.gen(function* () {
        yield* Effect.repeat(killing, { times: kills - 1 })
        yield* Effect.repeat(damaging, { times: damages - 1 })
        if (mounted && fulls > 0) yield* Effect.repeat(filling, { times: fulls - 1 })
        const noted = notes.noted("ack")
        yield* anotherGood("after the disk was full")
        return noted
      })
    )
    yield* load.settled(on.sql)
    yield* Effect.all([one.stop, two.stop])
    if (seen.most_drafts > 1) violations.push(`${seen.most_drafts} backups were written at once`)

    const { last_good_at } = yield* backups
    const isLast = (name: string) =>
      JSON.parse(fs.readFileSync(path(name), "utf8").split("\n", 1)[0]!).created_at === last_good_at?.toISOString()
    const last = names()
      .filter((name) => isWhole(name) && !damaged.has(name))
      .find(isLast)
    if (last === undefined) return { figures: seen, violations: [...violations, "the last good backup is not there"] }
    const elsewhere = join(folder, "elsewhere")
    fs.mkdirSync(join(elsewhere, "data"), { recursive: true, mode: 0o711 })
    fs.copyFileSync(join(folder, "data/secrets.env"), join(elsewhere, "data/secrets.env"))
    const { rows } = yield* admin(elsewhere, "restore-database", "--in", path(last), "--without-erasures")
    yield* load.present((yield* beside(elsewhere, one)).sql, acks)

    return {
      figures: { disk: mounted ? "tmpfs" : "not filled", ...load.counts(), ...seen, restored_rows: rows },
      violations: [...violations, ...load.violations]
    }
  })
)
