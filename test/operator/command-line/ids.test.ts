/** Operators name a project, or type the beginning of an id; whatever fits two things changes nothing. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isPrefix, rangeOf } from "../../../src/operator/IdPrefix.ts"
import { shellWord } from "../../../src/operator/ShellWord.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { admin, type Ended, refusal, result, secrets, serviceAdmin } from "../../support/service/ServiceAdmin.ts"

const [shop, shopToo, harbour] = [
  "aaaa0000-0000-7000-8000-000000000001",
  "aaaa0000-0000-7000-8000-000000000002",
  "bbbb0000-0000-7000-8000-000000000003"
]
const [one, other] = ["cccc0000-0000-7000-8000-000000000001", "cccc1111-0000-7000-8000-000000000002"]

const filled = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`insert into project (project_id, name, created_at) values
    (${shop}, 'Shop', now()), (${shopToo}, 'Shop', now()), (${harbour}, 'Harbour', now())`
  for (const [project, id] of [
    [harbour, one],
    [shop, other],
    [harbour, other]
  ] as const)
    yield* sql`insert into task
      (project_id, id, title, body, status, priority, tags, version, created_by, updated_by, created_at, updated_at)
      values (${project}, ${id}, 'Mend the crane', 'It squeaks.', 'open', 2, '{}', 1, 'a', 'a', now(), now())`
})

layer(TestDatabase.sql)("an id that was typed", (it) => {
  const json = (...args: ReadonlyArray<string>) => admin(...args, "--json")
  const projectIn = (ended: Ended) => result(ended).project_id
  const message = ({ stderr }: Ended) => JSON.parse(stderr).error.message

  it.effect("is completed, or a name stands for it; two that fit are refused with both", () =>
    Effect.gen(function* () {
      yield* json("migrate")
      yield* filled
      for (const given of [harbour, harbour.toUpperCase(), "bbbb", "bbbb0000-0000", "Harbour"])
        assert.strictEqual(projectIn(yield* json("show-project", "--project", given)), harbour, given)

      const two = yield* json("show-project", "--project", "Shop")
      assert.deepStrictEqual(refusal(two), [1, "id_ambiguous"])
      for (const id of [shop, shopToo]) assert.include(message(two), `${id} (Shop)`)
      assert.deepStrictEqual(refusal(yield* json("disable-project", "--project", "aaaa")), [1, "id_ambiguous"])
      assert.deepStrictEqual(refusal(yield* json("disable-project", "--project", "shop")), [1, "project_not_found"])
      const sql = yield* SqlClient.SqlClient
      const [{ disabled } = {}] =
        yield* sql`select count(*)::int as disabled from project where disabled_at is not null`
      assert.strictEqual(disabled, 0)
    })
  )

  it.effect("is looked up in its project", () =>
    Effect.gen(function* () {
      const show = (task: string, project = "Harbour") => json("show-task", "--project", project, "--task", task)
      assert.strictEqual(result(yield* show("cccc0")).task.id, one)
      assert.strictEqual(result(yield* show("cccc", shop)).task.id, other)
      assert.deepStrictEqual(refusal(yield* show("cccc")), [1, "id_ambiguous"])
      assert.deepStrictEqual(refusal(yield* show("dddd")), [1, "id_not_found"])
      assert.deepStrictEqual(refusal(yield* show("cccc0", shop)), [1, "id_not_found"])
      assert.deepStrictEqual(refusal(yield* show("ccc")), [64, "usage"])
      assert.deepStrictEqual(refusal(yield* json("revoke-device", "--device", "cccc")), [1, "id_not_found"])
    })
  )

  it.effect("must be whole where something is erased", () =>
    Effect.gen(function* () {
      const purge = yield* json("purge-task", "--project", harbour, "--task", "cccc0", "--yes")
      assert.deepStrictEqual(refusal(purge), [64, "usage"])
      assert.strictEqual(result(yield* json("list-tasks", "--project", harbour)).items.length, 2)
    })
  )

  it.effect("of a project may stand in SERVICE_PROJECT, but not to disable or erase", () =>
    Effect.gen(function* () {
      const { database, host, port, username } = yield* TestDatabase
      const DATABASE_URL = `postgres://${username}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`
      const run = (...args: ReadonlyArray<string>) =>
        Effect.promise(
          () => serviceAdmin([...args, "--json"], { ...secrets, DATABASE_URL, SERVICE_PROJECT: "Harbour" }).ended
        )
      assert.strictEqual(projectIn(yield* run("show-project")), harbour)
      assert.strictEqual(projectIn(yield* run("show-project", "--project", shop)), shop)
      assert.strictEqual(result(yield* run("list-tasks")).items.length, 2)
      assert.deepStrictEqual(refusal(yield* run("disable-project")), [64, "usage"])
      assert.deepStrictEqual(refusal(yield* run("delete-project", "--yes")), [64, "usage"])
      assert.deepStrictEqual(refusal(yield* json("show-project")), [64, "usage_error"])
    })
  )

  it.effect("of a project is not needed where there is one project, but to disable or erase it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`update project set deleted_at = now() where project_id <> ${harbour}`
      assert.strictEqual(projectIn(yield* json("show-project")), harbour)
      assert.strictEqual(result(yield* json("list-tasks")).items.length, 2)
      assert.deepStrictEqual(refusal(yield* json("disable-project")), [64, "usage"])
      yield* sql`update project set deleted_at = now()`
      const none = yield* json("list-tasks")
      assert.deepStrictEqual(refusal(none), [64, "usage_error"])
      assert.include(message(none), "init")
    })
  )

  it("has its dashes in their places, and a range that holds what begins so", () => {
    for (const text of ["aaaa", "aaaa0000-", harbour]) assert.isTrue(isPrefix(text), text)
    for (const text of ["aaa", "AAAA", "aaaa-0000", "spt_0000", `${harbour}0`, ""]) assert.isFalse(isPrefix(text), text)
    assert.deepStrictEqual(rangeOf("bbbb0000-1"), {
      from: "bbbb0000-1000-0000-0000-000000000000",
      to: "bbbb0000-1fff-ffff-ffff-ffffffffffff"
    })
    assert.deepStrictEqual(rangeOf(harbour), { from: harbour, to: harbour })
  })

  it("is one word of a shell in a command to copy, and so is any other value", () => {
    for (const word of [harbour, "github:octo", "https://example.com/a_b-c", "ada@desk"])
      assert.strictEqual(shellWord(word), word)
    for (const [text, word] of [
      ["", "''"],
      ["The shop", "'The shop'"],
      ["$(rm)", "'$(rm)'"],
      ["a\nb", "'a\nb'"],
      ["Ada's", "'Ada'\\''s'"]
    ] as const)
      assert.strictEqual(shellWord(text), word)
  })
})
