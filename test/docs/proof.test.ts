import { assert, describe, it } from "@effect/vitest"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "../../src/Package.ts"
import { read, rows } from "../support/Markdown.ts"

describe("docs/proof.md", () => {
  it("has a row for each chaos script, and no other", () => {
    const scripts = readdirSync(join(packageRoot, "test/chaos"))
      .filter((file) => file.endsWith(".ts") && file !== "harness.ts")
      .map((file) => file.replace(/\.ts$/, ""))
    const named = rows(read("docs/proof.md")).flatMap(({ Script }) => Script?.replaceAll("`", "") ?? [])
    assert.sameMembers(named, scripts)
  })
})
