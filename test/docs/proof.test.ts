import { assert, describe, it } from "@effect/vitest"
import { globSync, readdirSync } from "node:fs"
import { basename, join } from "node:path"
import { areaNames, filesOf } from "../../scripts/mutation/areas.ts"
import { packageRoot } from "../support/run/Root.ts"
import { read, rows } from "../support/run/Markdown.ts"

describe("docs/proof.md", () => {
  it("has exactly one row for each chaos script", () => {
    const scripts = readdirSync(join(packageRoot, "test/attacks/chaos"), { recursive: true, encoding: "utf8" })
      .filter((file) => /^(?!parts).+\/.+\.ts$/.test(file))
      .map((file) => basename(file, ".ts"))
    const named = rows(read("docs/proof.md")).flatMap(({ Script }) => Script?.replaceAll("`", "") ?? [])
    assert.sameMembers(named, scripts)
  })

  it("promises that each file belongs to one area of mutation testing", () => {
    assert.sameMembers(areaNames.flatMap(filesOf), globSync("src/**/*.ts", { cwd: packageRoot }))
    for (const area of areaNames) assert.isNotEmpty(filesOf(area), area)
  })
})
