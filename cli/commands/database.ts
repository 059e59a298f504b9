/** The database as a whole: migrate, back up, restore. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { writeFileSync } from "node:fs"
import { command, using, usingUnmigrated } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next } from "../support/terminal/Print.ts"
import { watching } from "../support/terminal/progress.ts"
import { fileWork } from "../support/files/SecretFiles.ts"
import { contents, expectFile, writeWhole } from "../support/files/WholeFiles.ts"

/** Every command but doctor migrates first; this one reports the files that ran. */
const migrate = command("migrate", {
  description: "Bring the database's schema up to date",
  flags: {},
  run: () => using(({ migrated }) => Effect.succeed({ migrated })),
  print: ({ migrated }) => [
    ...(migrated.length === 0 ? ["The schema is up to date."] : migrated.map((file) => `Ran ${file}`)),
    next("doctor")
  ]
})

const backupDatabase = command("backup-database", {
  description: "Write the whole database to a new file; the server may be running",
  flags: { out: Flags.path("out", "New file to write") },
  run: ({ out }) =>
    using(({ backup, recorded }) =>
      writeWhole(out, (file) =>
        Effect.tap(
          backup.save((text) => fileWork(out, () => writeFileSync(file, text))).pipe(watching("Saved", "rows")),
          recorded("database.backed_up", null)
        )
      ).pipe(Effect.map((summary) => ({ file: out, ...summary })))
    ),
  print: (saved) => [
    ...facts(saved),
    "Protect this file like the database itself. It does not hold the service's secrets: keep a copy of them elsewhere. Without SERVICE_BACKUP_KEY a restore cannot tell whether the file was changed.",
    next(`restore-database --in ${saved.file} --erasures FILE`, "into an empty database, with what was erased since")
  ]
})

const restoreDatabase = command("restore-database", {
  description: "Fill an empty database from a backup, all or nothing",
  flags: {
    in: Flags.path("in", "File written by backup-database"),
    acceptUnsigned: Flag.Boolean("accept-unsigned").pipe(
      Flag.withDescription("Also take a backup of 0.1.0, or one whose SERVICE_BACKUP_KEY is lost"),
      Flag.withDefault(false)
    ),
    erasures: Flags.path(
      "erasures",
      "SERVICE_ERASURE_FILE of each process that erased; what they name is erased again"
    ).pipe(Flags.anyNumber),
    withoutErasures: Flag.Boolean("without-erasures").pipe(
      Flag.withDescription("Nothing was ever erased, or what was erased may come back"),
      Flag.withDefault(false)
    ),
    open: Flag.Literals("open", ["erase", "keep"]).pipe(
      Flag.withDescription("What to do with erasures of which a crash hides whether they were carried out"),
      Flag.optional
    )
  },
  refuse: ({ erasures, withoutErasures }) =>
    (erasures.length === 0) === withoutErasures
      ? undefined
      : "Name every erasure file with --erasures, or pass --without-erasures: a backup brings back what was erased after it.",
  run: ({ acceptUnsigned, erasures: files, in: path, open }) =>
    usingUnmigrated(({ backup, erasures, recorded }) =>
      erasures
        .replay(
          files,
          Option.getOrElse(open, () => "refuse" as const)
        )
        .pipe(
          Effect.flatMap((replayed) =>
            // It is read twice: verified, then restored.
            Effect.andThen(expectFile(path, 2), backup.restore(contents(path), { acceptUnsigned }, replayed)).pipe(
              watching("Read", "MB")
            )
          ),
          Effect.tap(({ created_at, finished }) =>
            recorded("database.restored", null, { created_at: created_at.toISOString(), erasures: `${finished}` })
          ),
          Effect.map(({ finished, ...restored }) => ({ ...restored, erasures: finished }))
        )
    ),
  print: (restored) => [...facts(restored), next("doctor")]
})

const verifyBackup = command("verify-backup", {
  description:
    "Try a backup by restoring it into a scratch database, which is dropped again; or at least read it whole",
  flags: {
    in: Flags.path("in", "Backup to try; by default the newest in SERVICE_BACKUP_DIR").pipe(Flag.optional)
  },
  run: ({ in: file }) => using(({ backups }) => backups.verify(file).pipe(watching("Read", "MB"))),
  print: (tried) => [
    ...facts(tried),
    tried.outcome === "restored"
      ? "The backup was restored into a scratch database."
      : "The backup is whole and its signature is valid, but it was not restored.",
    next("status", "how old the last good backup is")
  ]
})

export const database = [migrate, backupDatabase, verifyBackup, restoreDatabase]
