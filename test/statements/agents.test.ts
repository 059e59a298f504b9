/** Each condition in the statements of memory, tasks and documents decides alone in one row (spec 2.8, 4.8 to 4.11). */
import { assert, layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as IdempotencyStore from "../../src/agents/continuity/IdempotencyStore.ts"
import * as PurgeStore from "../../src/agents/purge/PurgeStore.ts"
import { sweeps } from "../../src/agents/continuity/Sweeps.ts"
import * as DocumentStore from "../../src/agents/documents/DocumentStore.ts"
import * as ActivityStore from "../../src/agents/handover/ActivityStore.ts"
import type { HappenedKind } from "../../src/agents/handover/Shapes.ts"
import * as EmbeddingStore from "../../src/agents/embeddings/EmbeddingStore.ts"
import * as MemoryStore from "../../src/agents/memory/MemoryStore.ts"
import { searchText } from "../../src/agents/memory/Search.ts"
import * as SearchStore from "../../src/agents/memory/SearchStore.ts"
import { sweeps as memorySweeps } from "../../src/agents/memory/Sweeps.ts"
import { everyStage } from "../../src/agents/ranking/Stages.ts"
import * as DependencyStore from "../../src/agents/tasks/dependencies/DependencyStore.ts"
import * as NoteStore from "../../src/agents/tasks/NoteStore.ts"
import * as ReceiptStore from "../../src/agents/tasks/ReceiptStore.ts"
import * as TaskStore from "../../src/agents/tasks/TaskStore.ts"
import * as TransferStore from "../../src/agents/transfer/TransferStore.ts"
import { storedMaxima } from "../../src/operator/limits/LimitNames.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import { usageOf } from "../../src/platform/sql/ProjectUsage.ts"
import { sweepOf, testConditions } from "../support/statements/Conditions.ts"
import { hash, id, ids, longAgo, now, past, phone, projects, sqlNow, trace } from "../support/statements/OneOfEach.ts"
import * as ContentsStore from "../../src/people/operator/ContentsStore.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const { entry, otherProject, project, task } = ids
const maxima = storedMaxima({})
const needed = id(53)
const others = `bytea '\\x${"07".repeat(32)}'`

const taskRow = (task_id: string) => `
  insert into task (
    project_id, id, title, body, status, priority, tags, assignee, version, created_by, created_at, updated_at)
  values ('${project}', '${task_id}', 'Task', '', 'open', 2, '{api}', 'me', 1, 'agent', ${past}, ${past})`
const close = `status = 'done', closed_at = ${past}`
/** An open task that depends on a closed one, with a receipt. */
const tasks = `${projects}; ${taskRow(task)}; ${taskRow(needed)};
  update task set ${close} where id = '${needed}';
  insert into task_dependency (project_id, task_id, depends_on) values ('${project}', '${task}', '${needed}');
  insert into receipt (
    project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls, task_version_after,
    task_status_after, actor, created_at)
  values ('${project}', '${id(54)}', '${task}', 'session', 'me', 'progress', 'Half.', '{}', '{}', 1, 'open', 'agent',
          ${past})`
/** An active entry, indexed under the lexeme "word". */
const memory = `${tasks};
  insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
  values ('${project}', '${entry}', 'note', 'word', 'word', '{api,web}', 'agent', 'contributor', ${past});
  insert into memory_posting (project_id, lexeme, entry_id, tf, dl) values ('${project}', 'word', '${entry}', 1, 1);
  insert into memory_count (project_id, part, active) values ('${project}', 2, 1);
  insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
  values ('${project}', 100, 28, 1, 2)`

const noted = `${tasks};
  insert into task_note (project_id, id, task_id, text, actor, created_at)
  values ('${project}', '${id(58)}', '${task}', 'Half.', 'agent', ${past})`
const hourAgo = new Date(now.getTime() - 3_600_000)

const elsewhere = (table: string, where = "") => `update ${table} set project_id = '${otherProject}' ${where}`
const ofTheTask = `where id = '${task}'`

layer(TestDatabase.sql)("statements of tasks", (it) => {
  const found = (name: string, act: Parameters<typeof testConditions>[2]["act"], rest: Record<string, string> = {}) =>
    testConditions(it, name, {
      given: tasks,
      act,
      actsNotOn: { "in another project": elsewhere("task", ofTheTask), ...rest }
    })
  const another = `update task set id = '${id(59)}' ${ofTheTask}`
  found("a task is found", (sql) => TaskStore.make(sql).find(project, task), { "if it is another one": another })
  found("a task is locked", (sql) => TaskStore.make(sql).lock(project, task), { "if it is another one": another })
  /** A lock counts the rows that it takes. */
  const one = Effect.map((counted: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
    counted.filter((row) => Number(row["count"]) === 1)
  )
  found("a task is locked with others", (sql) => DependencyStore.make(sql).lock(project, [task]).pipe(one), {
    "if it is another one": another
  })
  found("a task is known", (sql) => DependencyStore.make(sql).findAll(project, [task]), {
    "if it is another one": another
  })

  const none = { order: "priority", keys: undefined } as const
  const listed = (filter: TaskStore.Filter) => (sql: SqlClient.SqlClient) =>
    TaskStore.make(sql).list(project, filter, none, 9)
  const onlyTask = `update task set assignee = null, tags = '{}' where id = '${needed}'`
  const lists: Readonly<Record<string, readonly [TaskStore.Filter, Record<string, string>]>> = {
    "by its status": [{ status: ["open"] }, { "in another status": `update task set ${close} ${ofTheTask}` }],
    "by its assignee": [{ assignee: "me" }, { "of another one": `update task set assignee = 'you' ${ofTheTask}` }],
    "by its tag": [{ tag: "api" }, { "with another one": `update task set tags = '{web}' ${ofTheTask}` }],
    "when it is ready": [
      { ready: true },
      {
        "that is in progress": `update task set status = 'in_progress' ${ofTheTask}`,
        "that waits for another": `update task set waits_for = 1 ${ofTheTask}`
      }
    ]
  }
  /** Imports keep ids, so that two projects may have a task of one id. */
  const twin = (change: string) => `
    insert into task
    select (jsonb_populate_record(t, '{"project_id": "${otherProject}"}')).* from task t where id = '${needed}';
    update task set ${change} where project_id = '${otherProject}'`
  const openTwin = {
    "though another project has an open task of its dependency's id": twin("status = 'open', closed_at = null")
  }
  for (const [how, [filter, actsNotOn]] of Object.entries(lists)) {
    testConditions(it, `a task is listed ${how}`, {
      given: `${tasks}; ${onlyTask}`,
      act: listed(filter),
      actsOn: openTwin,
      actsNotOn: { ...actsNotOn, "in another project": elsewhere("task", ofTheTask) }
    })
  }
  testConditions(it, "a task is unfinished", {
    given: tasks,
    act: (sql) => TaskStore.make(sql).unfinished(project, {}, 9),
    actsNotOn: {
      "after its end": `update task set ${close} ${ofTheTask}`,
      "in another project": elsewhere("task", ofTheTask)
    }
  })
  const counted = (name: string, isExpected: (counts: any) => boolean, rest: Record<string, string>, change = "") =>
    testConditions(it, name, {
      given: `${tasks}; insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
        values ('${project}', 0, 0, 0, 2); ${change}`,
      act: (sql) => Effect.map(TaskStore.make(sql).counts(project), Option.filter(isExpected)),
      actsNotOn: { "in another project": elsewhere("task", ofTheTask), ...rest }
    })
  const block = `update task set status = 'blocked', blocked_kind = 'decision' ${ofTheTask}`
  counted("a task counts as open", ({ closed, open }) => open === 1 && closed === 1, {
    "after its end": `update task set ${close} ${ofTheTask}`,
    "at work": `update task set status = 'in_progress' ${ofTheTask}`
  })
  counted(
    "a task counts as waiting for a person",
    ({ decisions }) => decisions === 1,
    {
      "for another reason": `${block}; update task set blocked_kind = 'other' ${ofTheTask}`,
      "when it is open": `update task set status = 'open', blocked_kind = null ${ofTheTask}`
    },
    block
  )
  testConditions(it, "closed tasks are counted by the project's usage", {
    given: `${tasks}; insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
      values ('${project}', 0, 0, 0, 2)`,
    act: (sql) =>
      Effect.map(
        TaskStore.make(sql).counts(project),
        Option.filter(({ closed }) => closed === 1)
      ),
    actsNotOn: { "of another project": elsewhere("project_usage") }
  })

  const written = {
    id: task,
    title: "Task",
    body: "",
    status: "open",
    priority: 2,
    tags: [],
    depends_on: [needed],
    ready: false,
    assignee: null,
    claimed_at: null,
    version: 2,
    blocked_reason: null,
    blocked_kind: null,
    created_by: "agent",
    created_at: now,
    updated_at: now,
    closed_at: null
  } as const
  testConditions(it, "a task is updated", {
    given: tasks,
    act: (sql) => TaskStore.make(sql).update(project, written, undefined, "agent", now, trace, 1, maxima),
    actsNotOn: {
      "if it is another one": another,
      "in another project": elsewhere("task", ofTheTask),
      "at another version": `update task set version = 2 ${ofTheTask}`
    }
  })
  const asks = `status = 'blocked', blocked_kind = 'decision'`
  const keeps = `insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
    values ('${project}', '${entry}', 'decision', 'word', 'word', '{}', 'agent', 'contributor', ${past})`
  const answer = {
    entry_id: entry,
    text: "Yes",
    by: { kind: "token", id: "1", label: null },
    at: now,
    same_credential: false
  } as const
  testConditions(it, "a task is answered", {
    given: `${tasks}; ${keeps}; update task set ${asks} ${ofTheTask}`,
    act: (sql) => TaskStore.make(sql).answered(project, { id: task, version: 2, answer }, "agent", trace),
    actsNotOn: {
      "if it is another one": another,
      "in another project": elsewhere("task", ofTheTask),
      "at another version": `update task set version = 2 ${ofTheTask}`
    }
  })
  const resumed = (name: string, status: string, changes: Record<string, string>) =>
    testConditions(it, name, {
      given: `${tasks}; ${keeps}; update task set ${asks} ${ofTheTask}`,
      act: (sql) =>
        Effect.map(
          TaskStore.make(sql).answered(project, { id: task, version: 2, answer }, "agent", trace),
          Option.filter((freed) => freed.status === status)
        ),
      actsNotOn: changes
    })
  resumed("an answered task goes back to work", "in_progress", {
    "without an assignee": `update task set assignee = null ${ofTheTask}`,
    "while it waits for another": `update task set waits_for = 1 ${ofTheTask}`
  })
  testConditions(it, "an answer waits for its session", {
    given: `${tasks}; update task set answer = '${JSON.stringify(answer)}' ${ofTheTask}`,
    act: (sql) => TaskStore.make(sql).withAnswer(project, {}, 9),
    actsNotOn: {
      "after a receipt": "update task set answer = null",
      "after the end of its task": `update task set ${close} ${ofTheTask}`,
      "in another project": elsewhere("task", ofTheTask)
    }
  })
  for (const [name, find] of [
    ["a task asks a person", (sql: SqlClient.SqlClient) => TaskStore.make(sql).asked(project, {}, 9)],
    ["a question is listed", (sql: SqlClient.SqlClient) => TaskStore.make(sql).questions(project, 9)]
  ] as const) {
    testConditions(it, name, {
      given: `${tasks}; update task set ${asks} ${ofTheTask}`,
      act: find,
      actsNotOn: {
        "when it is open": `update task set status = 'open', blocked_kind = null ${ofTheTask}`,
        "when it waits for something else": `update task set blocked_kind = 'external' ${ofTheTask}`,
        "in another project": elsewhere("task", ofTheTask)
      }
    })
  }
  testConditions(it, "a task is newer than a caller knows", {
    given: `${tasks}; update task set version = 3 ${ofTheTask}`,
    act: (sql) => TaskStore.make(sql).newer([[project, task, 2]]),
    actsNotOn: {
      "at the same version": `update task set version = 2 ${ofTheTask}`,
      "if it is another one": another,
      "in another project": elsewhere("task", ofTheTask)
    }
  })
  testConditions(it, "a task is added", {
    given: tasks,
    act: (sql) => TaskStore.make(sql).insert(project, { ...written, id: id(58), version: 1 }, now, trace, 1, maxima),
    actsNotOn: {
      "that depends on one of another project": elsewhere("task", `where id = '${needed}'`),
      "that depends on none there is": `update task set id = '${id(59)}' where id = '${needed}'`
    }
  })
  const receipt = {
    id: id(57),
    task_id: task,
    session_ref: "session",
    worker: "me",
    thread: null,
    outcome: "progress",
    summary: "Half.",
    next_steps: [],
    pitfalls: [],
    git_checkpoint: null,
    task_version_after: 2,
    task_status_after: "open",
    actor: "agent",
    created_at: now
  } as const
  testConditions(it, "a session writes a receipt", {
    given: `${tasks}; update receipt set session_ref = 'earlier'`,
    act: (sql) =>
      Effect.map(
        TaskStore.make(sql).update(project, written, receipt, "agent", now, trace, 1, maxima),
        Option.filter(({ receipt_id }) => receipt_id !== null)
      ),
    actsOn: {
      "though it has one for another task": `update receipt set session_ref = 'session', task_id = '${needed}'`
    },
    actsNotOn: { "twice for one task": "update receipt set session_ref = 'session'" }
  })
  const receipts = (
    name: string,
    act: Parameters<typeof testConditions>[2]["act"],
    rest: Record<string, string> = {}
  ) =>
    testConditions(it, name, {
      given: tasks,
      act,
      actsNotOn: { "in another project": elsewhere("receipt"), ...rest }
    })
  receipts(
    "a receipt of a task is found",
    (sql) => ReceiptStore.make(sql).ofTask(project, task, { after: undefined, limit: 9 }),
    {
      "of another task": `update receipt set task_id = '${needed}'`
    }
  )
  receipts("a receipt of a project is found", (sql) => ReceiptStore.make(sql).recent(project, {}, 9))
  const note = { id: id(58), task_id: task, text: "Half.", actor: "agent", created_at: now }
  found("a note is left", (sql) => NoteStore.make(sql).insert(project, note, trace, 1, maxima), {
    "on another task": another
  })
  testConditions(it, "a note of a task is found", {
    given: noted,
    act: (sql) => NoteStore.make(sql).ofTask(project, task, 9),
    actsNotOn: {
      "in another project": elsewhere("task_note"),
      "of another task": `update task_note set task_id = '${needed}'`
    }
  })
  receipts(
    "a receipt is listed by task, worker and time",
    (sql) => ActivityStore.make(sql).receipts(project, { task_id: task, worker: "me", since: hourAgo }, undefined, 9),
    {
      "of another task": `update receipt set task_id = '${needed}'`,
      "of another worker": "update receipt set worker = 'another'",
      "before the time": `update receipt set created_at = ${past} - interval '1 ms'`
    }
  )
  const happened = (kind: HappenedKind, table: string, at: string, given: string, rest: Record<string, string> = {}) =>
    testConditions(it, `a ${kind} has happened`, {
      given,
      act: (sql) =>
        Effect.map(ActivityStore.make(sql).since(project, hourAgo, [kind], undefined, 9), (found) =>
          found.filter((one) => one.kind === kind && one.id !== needed)
        ),
      actsNotOn: {
        "in another project": elsewhere(table, table === "task" ? ofTheTask : ""),
        "before the time": `update ${table} set ${at} = ${past} - interval '1 ms'`,
        ...rest
      }
    })
  happened("task", "task", "updated_at", tasks)
  happened("receipt", "receipt", "created_at", tasks)
  happened("task_note", "task_note", "created_at", noted)
  happened("note", "memory_entry", "created_at", memory, {
    "when it is archived": "update memory_entry set active = false",
    "as a decision": "update memory_entry set kind = 'decision'"
  })
  happened("decision", "memory_entry", "created_at", `${memory}; update memory_entry set kind = 'decision'`, {
    "when it is archived": "update memory_entry set active = false",
    "as a note": "update memory_entry set kind = 'note'"
  })
  testConditions(it, "the receipts of a project are counted", {
    given: `${tasks};
      insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks, receipts)
      values ('${project}', 0, 0, 0, 0, 1)`,
    act: (sql) =>
      Effect.map(
        ReceiptStore.make(sql).count(project),
        Option.filter(({ count }) => count === 1)
      ),
    actsNotOn: { "if they are another's": `update project_usage set project_id = '${otherProject}'` }
  })

  const depends = (name: string, act: Parameters<typeof testConditions>[2]["act"]) =>
    testConditions(it, name, {
      given: tasks,
      act,
      actsOn: openTwin,
      actsNotOn: {
        "in another project": elsewhere("task_dependency"),
        "of another task": `update task_dependency set task_id = '${id(59)}'`,
        "on another task": `update task_dependency set depends_on = '${id(59)}'`
      }
    })
  const reached = <E>(walk: Effect.Effect<Option.Option<{ readonly found: boolean }>, E>) =>
    Effect.map(
      walk,
      Option.filter(({ found }) => found)
    )
  depends("a dependency is listed", (sql) =>
    Effect.map(DependencyStore.make(sql).dependenciesOf(project, task), (links) =>
      links.length === 1 ? links.filter(({ id }) => id === needed) : []
    )
  )
  depends("a task that is blocked is listed", (sql) =>
    Effect.map(DependencyStore.make(sql).blockedBy(project, needed, 9), (links) =>
      links.length === 1 ? links.filter(({ id }) => id === task) : []
    )
  )
  testConditions(it, "a task that waits is locked", {
    given: tasks,
    act: (sql) =>
      Effect.map(DependencyStore.make(sql).lockWaiting(project, [needed]), (count) => (count === 1 ? [count] : [])),
    actsNotOn: {
      "in another project": `${elsewhere("task")}; ${elsewhere("task_dependency")}`,
      "of another task": `update task_dependency set task_id = '${id(59)}'`,
      "on another task": `update task_dependency set depends_on = '${id(59)}'`
    }
  })
  depends("a task waits for another", (sql) => reached(DependencyStore.make(sql).waitFor(project, [task], needed)))
  depends("a task is waited for", (sql) => reached(DependencyStore.make(sql).waitedForBy(project, needed, [task])))
  testConditions(it, "a dependency goes when others replace it", {
    given: tasks,
    act: (sql) => DependencyStore.make(sql).replaceDependencies(project, task, []),
    seen: `select where not exists (select from task_dependency where depends_on = '${needed}')`,
    actsNotOn: {
      "in another project": elsewhere("task_dependency"),
      "of another task": `update task_dependency set task_id = '${id(59)}'`
    }
  })
  testConditions(it, "a dependency that is named again stays", {
    given: tasks,
    act: (sql) => DependencyStore.make(sql).replaceDependencies(project, task, [needed]),
    seen: `select from task_dependency where depends_on = '${needed}' and task_id = '${task}'`,
    actsNotOn: {}
  })
})

layer(TestDatabase.sql)("statements of memory", (it) => {
  const text = searchText("new")
  const added = {
    id: id(61),
    kind: "note",
    title: "New",
    body: "New",
    tags: [],
    active: true,
    supersedes: entry,
    superseded_by: null,
    superseded_at: null,
    actor: "agent",
    role: "contributor",
    session_ref: null,
    task_id: task,
    source: null,
    created_at: now
  } as const
  testConditions(it, "an entry is added", {
    given: memory,
    act: (sql) => MemoryStore.make(sql).insert(project, added, text, now, trace, 1, maxima, false),
    actsNotOn: {
      "for another task": `update task set id = '${id(59)}' ${ofTheTask}`,
      "for a task of another project": elsewhere("task", ofTheTask),
      "over another entry": `update memory_entry set id = '${id(59)}'`,
      "over an entry of another project": elsewhere("memory_entry"),
      "over an entry that is not active": "update memory_entry set active = false"
    }
  })
  testConditions(it, "an entry is archived", {
    given: memory,
    act: (sql) => MemoryStore.make(sql).archive(project, entry),
    actsNotOn: {
      "if it is another one": `update memory_entry set id = '${id(59)}'`,
      "in another project": elsewhere("memory_entry"),
      twice: "update memory_entry set active = false"
    }
  })
  testConditions(it, "an entry is found", {
    given: memory,
    act: (sql) => MemoryStore.make(sql).find(project, entry),
    actsOn: { "that is not active": "update memory_entry set active = false" },
    actsNotOn: {
      "if it is another one": `update memory_entry set id = '${id(59)}'`,
      "in another project": elsewhere("memory_entry")
    }
  })
  testConditions(it, "the task of an entry is found", {
    given: memory,
    act: (sql) => MemoryStore.make(sql).findTask(project, task),
    actsNotOn: {
      "if it is another one": `update task set id = '${id(59)}' ${ofTheTask}`,
      "in another project": elsewhere("task", ofTheTask)
    }
  })
  testConditions(it, "an entry leaves the index", {
    given: memory,
    act: (sql) => MemoryStore.make(sql).unindex(project, entry, searchText("word")),
    seen: `select from project_usage
            where project_id = '${project}' and index_bytes = 0
              and not exists (select from memory_posting where project_id = '${project}')`,
    actsNotOn: {
      "in another project": elsewhere("memory_posting"),
      "under another lexeme": "update memory_posting set lexeme = 'other'",
      "if the posting is another's": `update memory_posting set entry_id = '${id(59)}'`
    }
  })
  const filter = { kind: "note", tags: ["api", "web"] }
  const question = { terms: [{ word: 0, lexeme: "word", share: 1 }], names: [], stages: everyStage }
  const matches = {
    "in another project": elsewhere("memory_entry"),
    "that is not active": "update memory_entry set active = false",
    "of another kind": "update memory_entry set kind = 'decision'",
    "with one of two tags": "update memory_entry set tags = '{web}'"
  }
  const tagged = { "with one more tag": "update memory_entry set tags = '{api,ops,web}'" }
  testConditions(it, "an entry is among the newest", {
    given: memory,
    act: (sql) => SearchStore.make(sql).recent(project, filter, undefined, 9),
    actsOn: tagged,
    actsNotOn: matches
  })
  testConditions(it, "an entry is among the best matches", {
    given: memory,
    act: (sql) => SearchStore.make(sql).ranked(project, question, filter, 9),
    actsOn: tagged,
    actsNotOn: {
      ...matches,
      "by a posting of another project": elsewhere("memory_posting"),
      "by another lexeme": "update memory_posting set lexeme = 'other'",
      "by another's posting": `update memory_posting set entry_id = '${id(59)}'`
    }
  })
  testConditions(it, "an entry is among the best matches of a search without filters", {
    given: memory,
    act: (sql) => SearchStore.make(sql).ranked(project, question, {}, 9),
    actsOn: { "of another kind": matches["of another kind"] },
    actsNotOn: {
      "in another project": elsewhere("memory_entry"),
      "that is not active": matches["that is not active"],
      "by a posting of another project": elsewhere("memory_posting"),
      "by another lexeme": "update memory_posting set lexeme = 'other'"
    }
  })
  const besideId = id(60)
  const ofBeside = `where id = '${besideId}'`
  testConditions(it, "an entry is found beside a match", {
    given: `${memory};
      insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, session_ref, task_id, created_at)
      values ('${project}', '${besideId}', 'note', 'other', 'other', '{api,web}', 'agent', 'contributor', 's', '${task}',
              ${past});
      update memory_entry set session_ref = 's', task_id = '${task}' where project_id = '${project}'`,
    act: (sql) =>
      Effect.map(SearchStore.make(sql).ranked(project, question, filter, 9), (hits) =>
        hits.filter(({ id }) => id === besideId)
      ),
    actsOn: {
      "of another session for the same task": `update memory_entry set session_ref = 't' ${ofBeside}`,
      "of another actor for the same task": `update memory_entry set actor = 'other' ${ofBeside}`,
      "for another task in the same session": `update memory_entry set task_id = '${needed}' ${ofBeside}`
    },
    actsNotOn: {
      "in another project": elsewhere("memory_entry", ofBeside),
      "that is not active": `update memory_entry set active = false ${ofBeside}`,
      "of another kind": `update memory_entry set kind = 'decision' ${ofBeside}`,
      "with one of two tags": `update memory_entry set tags = '{web}' ${ofBeside}`,
      "of another session and task": `update memory_entry set session_ref = 't', task_id = null ${ofBeside}`,
      "of another actor and task": `update memory_entry set actor = 'other', task_id = null ${ofBeside}`,
      "if the match is not active": `update memory_entry set active = false where id = '${entry}'`
    }
  })
  testConditions(it, "an earlier entry gets the postings of its dates", {
    given: `${memory};
      update memory_entry set body = 'on 2026-05-08' where project_id = '${project}';
      insert into memory_reindex (project_id, due_at) values ('${project}', ${past})`,
    bystander: memory,
    act: sweepOf(memorySweeps, "index memory", now),
    seen: `select from memory_posting where project_id = '${project}' and lexeme = '2026-05-08'`,
    actsNotOn: {
      "in another project": elsewhere("memory_entry"),
      "that is not active": "update memory_entry set active = false",
      "that was read before": `update memory_reindex set after = '${entry}'`,
      "before it is due": `update memory_reindex set due_at = ${past} + interval '1 year'`
    }
  })
  testConditions(it, "an entry is counted", {
    given: memory,
    act: (sql) =>
      Effect.map(
        SearchStore.make(sql).countActive(project),
        Option.filter(({ count }) => count === 1)
      ),
    actsNotOn: { "in another project": elsewhere("memory_count") }
  })

  /** A project that uses 100 bytes, 28 bytes of index, one entry and two tasks. */
  const most = { stored_bytes: 101, index_bytes: 29, entries: 2, tasks: 3 }
  const one = { stored_bytes: 1, index_bytes: 1, entries: 1, tasks: 1 }
  testConditions(it, "a project may store more", {
    given: memory,
    act: (sql) => TransferStore.make(sql).chargeImport(project, one, most),
    actsOn: { "when it is new": "delete from project_usage" },
    actsNotOn: Object.fromEntries(
      Object.keys(one).map((column) => [`${column}`, `update project_usage set ${column} = ${column} + 1`])
    )
  })
  testConditions(it, "what a project has stored is found", {
    given: memory,
    act: (sql) => usageOf(sql, project),
    actsNotOn: { "of another one": elsewhere("project_usage") }
  })
  const zero = { stored_bytes: 0, index_bytes: 0, entries: 0, tasks: 0 }
  for (const column of ["stored_bytes", "index_bytes", "entries", "tasks"] as const) {
    const first = (more: number) => (sql: SqlClient.SqlClient) =>
      TransferStore.make(sql).chargeImport(project, { ...zero, [column]: most[column] + more }, most)
    testConditions(it, `a new project may store its maximum of ${column}`, {
      given: projects,
      act: first(0),
      actsNotOn: {}
    })
    testConditions(it, `a new project may not store more than its maximum of ${column}`, {
      given: projects,
      act: (sql) => Effect.map(first(1)(sql), (charged) => (charged.length === 0 ? ["refused"] : [])),
      actsNotOn: {}
    })
  }
  testConditions(it, "a project that has too much may still store what does not grow", {
    given: `${memory}; update project_usage set entries = 9, tasks = 9, index_bytes = 99`,
    act: (sql) => TransferStore.make(sql).chargeImport(project, { ...zero, stored_bytes: 1 }, most),
    actsNotOn: { "if it has too much of it": "update project_usage set stored_bytes = 101" }
  })
})

layer(TestDatabase.sql)("statements of retries, transfer and documents", (it) => {
  const key = { project_id: project, tool: "task_create", idempotency_key: "key" }
  const record = `${memory};
    insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
    values ('${project}', 'task_create', 'key', ${hash("request")}, 'result', ${past})`
  const anotherKey = {
    "in another project": elsewhere("idempotency_record"),
    "of another tool": "update idempotency_record set tool = 'memory_add'",
    "under another key": "update idempotency_record set idempotency_key = 'other'"
  }
  testConditions(it, "an earlier call is found", {
    given: record,
    act: (sql) => IdempotencyStore.make(sql).find(key),
    actsNotOn: anotherKey
  })
  testConditions(it, "the result of a call is kept", {
    given: record,
    act: (sql) => IdempotencyStore.make(sql).complete(key, "new", 3, maxima),
    actsNotOn: anotherKey
  })
  testConditions(it, "a key is reserved", {
    given: `${record}; ${anotherKey["under another key"]}`,
    act: (sql) => IdempotencyStore.make(sql).reserve(key, sha256("request"), now),
    actsOn: {
      "that another project has used": `update idempotency_record set idempotency_key = 'key'; ${elsewhere("idempotency_record")}`,
      "that another tool has used": `update idempotency_record set idempotency_key = 'key', tool = 'memory_add'`
    },
    actsNotOn: { twice: "update idempotency_record set idempotency_key = 'key'" }
  })
  const sevenDays = `${sqlNow} - interval '7 days'`
  const purge = {
    given: `${record}; update idempotency_record set created_at = ${sevenDays} - interval '1 ms'`,
    bystander: record,
    act: (sql: SqlClient.SqlClient) => sweeps[0]!.run(sql, now, 9)
  }
  const keptForAWeek = { "for seven days": `update idempotency_record set created_at = ${sevenDays}` }
  testConditions(it, "an idempotency key is deleted", { ...purge, actsNotOn: keptForAWeek })
  testConditions(it, "the bytes of a deleted result are free", {
    ...purge,
    seen: `select from project_usage where stored_bytes = 100 - 6`,
    actsNotOn: { ...keptForAWeek, "in another project": elsewhere("idempotency_record") }
  })

  for (const [kind, table] of [
    ["memory", "memory_entry"],
    ["task", "task"],
    ["dependency", "task_dependency"],
    ["receipt", "receipt"]
  ] as const) {
    testConditions(it, `an export has a ${kind}`, {
      given: memory,
      act: (sql) => TransferStore.make(sql).page(project, kind, "", 9),
      actsNotOn: { "of another project": elsewhere(table) }
    })
  }
  testConditions(it, "a task is unknown", {
    given: memory,
    act: (sql) => TransferStore.make(sql).unknownTasks(project, [id(59)]),
    actsOn: {
      "if another project has it": `update task set id = '${id(59)}' ${ofTheTask};
        ${elsewhere("task", `where id = '${id(59)}'`)}`
    },
    actsNotOn: { "if the project has it": `update task set id = '${id(59)}' ${ofTheTask}` }
  })
  const embedded = `${memory};
    insert into embedding_block (project_id, model, number, ids, codes)
    values ('${project}', 'm', 0, bytea '\\x${entry.replaceAll("-", "")}', bytea '\\xffffffff');
    insert into memory_embedding (project_id, entry_id, model, number, slot, vector)
    values ('${project}', '${entry}', 'm', 0, 0, bytea '\\x01')`
  const queued = `${memory};
    insert into embedding_queue (project_id, entry_id, due_at) values ('${project}', '${entry}', ${past})`
  const unsent = {
    "of a project whose text may not be sent": `update project set limits = '{"embeddings": 0}' where project_id = '${project}'`,
    "of a disabled project": `update project set disabled_at = ${past} where project_id = '${project}'`
  }
  const inactive = { "that is not active": "update memory_entry set active = false" }
  const vectorOf = (model: string) => `
    insert into memory_embedding (project_id, entry_id, model, number, slot, vector)
    values ('${project}', '${entry}', '${model}', 0, 0, bytea '\\x01')`
  it.effect("entries are sent for their vectors in the order of their time, of the projects in any order", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const undone = <A, E, R>(work: Effect.Effect<A, E, R>) =>
        Effect.catchIf(
          sql.withTransaction(Effect.andThen(work, Effect.fail("undone"))),
          (error) => error === "undone",
          () => Effect.void
        )
      const seen = new Set<string>()
      const one = Effect.tap(EmbeddingStore.make(sql).claim(now, new Date(now.getTime() + 1000)), (claimed) =>
        Effect.sync(() => claimed.forEach(({ id, project_id }) => seen.add(`${project_id} ${id}`)))
      )
      const filled = sql.unsafe(`
        do $$ begin
          ${projects};
          insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
          select project_id, id::uuid, 'note', 'Title', 'Body', '{}', 'agent', 'contributor', ${past}
            from project
           cross join unnest('{${id(1)},${id(2)}}'::text[]) id;
          -- Entries that failed before come alone.
          insert into embedding_queue (project_id, entry_id, due_at, attempts)
          select project_id, id, case id when '${id(2)}' then ${longAgo} else ${past} end, 1 from memory_entry;
        end $$`).unprepared
      yield* undone(Effect.andThen(filled, Effect.repeat(undone(one), { until: () => seen.size === 2, times: 100 })))
      assert.deepStrictEqual([...seen].toSorted(), [`${project} ${id(2)}`, `${otherProject} ${id(2)}`])
    })
  )
  testConditions(it, "an entry is sent for its vector", {
    given: queued,
    bystander: memory,
    act: (sql) => EmbeddingStore.make(sql).claim(now, new Date(now.getTime() + 2000)),
    seen: `select from embedding_queue where entry_id = '${entry}' and due_at = ${sqlNow} + interval '2 seconds'`,
    actsNotOn: {
      ...unsent,
      ...inactive,
      "that is not active, beside one that is": `update memory_entry set active = false;
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        values ('${project}', '${id(59)}', 'note', 'word', 'word', '{}', 'agent', 'contributor', ${past});
        insert into embedding_queue (project_id, entry_id, due_at) values ('${project}', '${id(59)}', ${past})`,
      "that another worker has": `update embedding_queue set due_at = ${sqlNow} + interval '1 second'`
    }
  })
  testConditions(it, "an entry is put back", {
    given: queued,
    bystander: memory,
    act: (sql) => EmbeddingStore.make(sql).postpone(project, [entry], now, 1),
    seen: `select from embedding_queue where due_at = ${sqlNow} and attempts = 1`,
    actsNotOn: {
      "of another project": elsewhere("embedding_queue"),
      "that was not asked for": `update embedding_queue set entry_id = '${id(59)}'`
    }
  })
  testConditions(it, "an entry gets a vector", {
    given: memory,
    act: (sql) => EmbeddingStore.make(sql).lacking(project, [entry], "m"),
    actsOn: { "that has one of another model": vectorOf("n") },
    actsNotOn: {
      ...unsent,
      ...inactive,
      "of another project": elsewhere("memory_entry"),
      "that was not asked about": `update memory_entry set id = '${id(59)}'`,
      "that has one": vectorOf("m")
    }
  })
  testConditions(it, "an entry is queued for a vector", {
    given: memory,
    bystander: projects,
    act: (sql) => EmbeddingStore.make(sql).queueLacking("m", ["00000000-0000-0000-0000-000000000000", id(0)], 9, now),
    seen: "select from embedding_queue",
    actsOn: { "that has one of another model": vectorOf("n") },
    actsNotOn: { ...unsent, ...inactive, "that has one": vectorOf("m") }
  })
  testConditions(it, "a vector is found", {
    given: embedded,
    act: (sql) => EmbeddingStore.make(sql).vectors(project, "m", [entry]),
    actsNotOn: {
      "in another project": elsewhere("memory_embedding"),
      "of another entry": `update memory_embedding set entry_id = '${id(59)}'`,
      "of another model": "update memory_embedding set model = 'n'"
    }
  })
  const ofBlocks = {
    "in another project": elsewhere("embedding_block"),
    "of another model": "update embedding_block set model = 'n'"
  }
  testConditions(it, "a block is found", {
    given: embedded,
    act: (sql) => EmbeddingStore.make(sql).blocks(project, "m", [0]),
    actsNotOn: { ...ofBlocks, "with another number": "update embedding_block set number = 1" }
  })
  testConditions(it, "the version of a block is found", {
    given: embedded,
    act: (sql) => EmbeddingStore.make(sql).versions(project, "m"),
    actsNotOn: { ...ofBlocks, ...unsent }
  })
  testConditions(it, "the last block is found", {
    given: embedded,
    act: (sql) => EmbeddingStore.make(sql).lastBlock(project, "m"),
    actsNotOn: ofBlocks
  })
  testConditions(it, "an unused block is deleted", {
    given: `${embedded}; delete from memory_embedding`,
    bystander: projects,
    act: (sql) => EmbeddingStore.make(sql).prune("n"),
    seen: "select where not exists (select from embedding_block)",
    actsOn: {
      "of a project whose text may not be sent": `update embedding_block set model = 'n'; ${vectorOf("n")};
        ${unsent["of a project whose text may not be sent"]}`
    },
    actsNotOn: {
      "of the model": "update embedding_block set model = 'n'",
      "of a vector": vectorOf("m"),
      "of a disabled project": `update embedding_block set model = 'n';
        update project set limits = '{"embeddings": 0}', disabled_at = ${past} where project_id = '${project}'`
    }
  })
  const refersTo = (column: string, to: string) =>
    `update memory_entry set ${column} = '${to}'${column === "superseded_by" ? `, superseded_at = ${past}, active = false` : ""}`
  testConditions(it, "an imported entry dangles", {
    given: `${memory}; ${refersTo("supersedes", id(59))}`,
    bystander: memory,
    act: (sql) => TransferStore.make(sql).dangling(project),
    actsOn: {
      "below a missing successor": `update memory_entry set supersedes = null; ${refersTo("superseded_by", id(59))}`,
      "below a successor of another project": `
        insert into memory_entry
        select (jsonb_populate_record(e, '{"project_id": "${otherProject}", "id": "${id(59)}"}')).* from memory_entry e;
        update memory_entry set supersedes = null;
        ${refersTo("superseded_by", id(59))} where id = '${entry}'`,
      "as the answer of a task": `update memory_entry set supersedes = null;
        update task set answer_entry_id = '${id(59)}' ${ofTheTask}`,
      "beside a missing task": `update memory_entry set supersedes = null; ${refersTo("task_id", id(59))}`,
      "beside a task of another project": `update memory_entry set supersedes = null; ${refersTo("task_id", task)};
        ${elsewhere("task", ofTheTask)}`
    },
    actsNotOn: {
      "in another project": elsewhere("memory_entry"),
      "without references": "update memory_entry set supersedes = null",
      "with its predecessor": refersTo("supersedes", entry),
      "with its successor": `update memory_entry set supersedes = null; ${refersTo("superseded_by", entry)}`,
      "with its task": `update memory_entry set supersedes = null; ${refersTo("task_id", task)}`
    }
  })

  const oid = "a".repeat(40)
  const commit = "c".repeat(40)
  const pinned = `${projects};
    insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
    values ('${oid}', ${hash("x")}, 1, 1, 'x') on conflict do nothing;
    insert into pinned_document (
      project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
    values ('${project}', '${id(71)}', 'acme/shop', '${commit}', 'README.md', '100644', '${oid}', 'Readme', false,
            ${past})`
  const pin = {
    project_id: project,
    document_id: id(72),
    repository: "acme/shop",
    commit,
    path: "README.md",
    mode: "100644",
    title: "New title",
    bootstrap: false
  }
  const anotherDocument = { "if it is another one": `update pinned_document set document_id = '${id(79)}'` }
  const inAnother = { "in another project": elsewhere("pinned_document") }
  testConditions(it, "a document is found", {
    given: pinned,
    act: (sql) => DocumentStore.make(sql).find(project, id(71)),
    actsNotOn: { ...anotherDocument, ...inAnother }
  })
  testConditions(it, "a document is listed", {
    given: pinned,
    act: (sql) => DocumentStore.make(sql).list(project, { after: undefined, limit: 9 }),
    actsNotOn: inAnother
  })
  testConditions(it, "a document is among the first", {
    given: pinned,
    act: (sql) => DocumentStore.make(sql).first(project, 9),
    actsNotOn: inAnother
  })
  testConditions(it, "an earlier pin is found", {
    given: pinned,
    act: (sql) => DocumentStore.make(sql).findPin(pin),
    actsNotOn: {
      ...inAnother,
      "of another repository": "update pinned_document set repository = 'acme/other'",
      "of another commit": `update pinned_document set commit = '${"d".repeat(40)}'`,
      "of another path": "update pinned_document set path = 'OTHER.md'"
    }
  })
  testConditions(it, "a pin changes", {
    given: pinned,
    act: (sql) => DocumentStore.make(sql).pin(pin, oid, now),
    actsOn: { "when only bootstrap differs": "update pinned_document set title = 'New title', bootstrap = true" },
    actsNotOn: { "if it is the same": "update pinned_document set title = 'New title'" }
  })
  testConditions(it, "a blob is kept", {
    given: pinned,
    act: (sql) =>
      DocumentStore.make(sql).keepBlob({ blob_oid: oid, sha256: sha256("x"), line_count: 1, bytes: Buffer.from("x") }),
    actsNotOn: { "if other bytes have its id": `update document_blob set sha256 = ${others}` }
  })
  testConditions(it, "a document is unpinned", {
    given: pinned,
    act: (sql) => DocumentStore.make(sql).unpin(id(71)),
    actsNotOn: anotherDocument
  })
  testConditions(it, "an unused blob goes", {
    given: `${pinned}; delete from pinned_document`,
    bystander: "",
    act: (sql) => DocumentStore.make(sql).dropUnused(oid),
    seen: `select where not exists (select from document_blob)`,
    actsNotOn: {
      "if it is another one": `update document_blob set blob_oid = '${"b".repeat(40)}'`,
      "while it is pinned": pinned.slice(projects.length + 1)
    }
  })
  testConditions(it, "a blob goes", {
    given: `${pinned}; update pinned_document set blob_oid = '${"b".repeat(40)}'`,
    bystander: "",
    act: (sql) => DocumentStore.make(sql).dropUnused(oid),
    seen: `select where not exists (select from document_blob)`,
    actsNotOn: { "while a document has it": `update pinned_document set blob_oid = '${oid}'` }
  })

  const listed = { after: undefined, limit: 9 }
  testConditions(it, "a task is listed for an operator", {
    given: `${projects}; ${taskRow(task)}`,
    act: (sql) => ContentsStore.make(sql).tasks(project, listed),
    actsNotOn: { "of another project": elsewhere("task") }
  })
  testConditions(it, "a task is listed after another", {
    given: `${projects}; ${taskRow(task)}`,
    act: (sql) => ContentsStore.make(sql).tasks(project, { after: needed, limit: 9 }),
    actsNotOn: { "unless it is a newer one": `update task set id = '${id(54)}'` }
  })
  testConditions(it, "a task that has changed since a time is listed", {
    given: `${projects}; ${taskRow(task)}`,
    act: (sql) => ContentsStore.make(sql).tasks(project, listed, { since: hourAgo }),
    actsOn: { "though it is older": `update task set created_at = ${longAgo}` },
    actsNotOn: { "before that": `update task set updated_at = ${past} - interval '1 ms'` }
  })
  testConditions(it, "a task is found by the beginning of its id", {
    given: `${projects}; ${taskRow(task)}`,
    act: (sql) => ContentsStore.make(sql).ids("task", { from: task, to: task }, project),
    actsNotOn: { "of another project": elsewhere("task"), "if it is another one": `update task set id = '${needed}'` }
  })
  testConditions(it, "an entry is listed for an operator", {
    given: memory,
    act: (sql) => ContentsStore.make(sql).entries(project, listed),
    actsOn: { "that is archived": "update memory_entry set active = false" },
    actsNotOn: { "of another project": elsewhere("memory_entry") }
  })
})

layer(TestDatabase.sql)("statements that erase", (it) => {
  const store = PurgeStore.make
  const freed = <R extends { readonly bytes: number }, E, X>(work: Effect.Effect<Option.Option<R>, E, X>) =>
    Effect.map(
      work,
      Option.filter(({ bytes }) => bytes > 0)
    )
  const otherEntry = `update memory_entry set id = '${id(59)}' where id = '${entry}'`
  const otherTask = `update task set id = '${id(59)}' ${ofTheTask}`
  const notMine = { "in another project": elsewhere("memory_entry"), "if it is another one": otherEntry }

  testConditions(it, "entries are locked", {
    given: memory,
    act: (sql) => store(sql).lockEntries(project, [entry]),
    actsNotOn: notMine
  })
  testConditions(it, "old entries are found", {
    given: memory,
    act: (sql) => store(sql).entriesBefore(project, now, 9),
    actsNotOn: {
      "in another project": notMine["in another project"],
      "of that very time": `update memory_entry set created_at = ${sqlNow}`,
      "of more than a mebibyte": "update memory_entry set body = repeat('a', 1048576)"
    }
  })
  testConditions(it, "the postings of an entry go", {
    given: memory,
    act: (sql) =>
      Effect.flatMap(store(sql).findPostings(project, [entry]), (found) =>
        freed(store(sql).dropPostings(project, [entry], Option.getOrThrow(found).places))
      ),
    actsNotOn: {
      "in another project": elsewhere("memory_posting"),
      "of another entry": `update memory_posting set entry_id = '${id(59)}'`
    }
  })
  testConditions(it, "a posting goes from its place", {
    given: memory,
    act: (sql) =>
      Effect.flatMap(
        sql<{ places: string }>`select coalesce(array_agg(ctid), '{}')::text as places from memory_posting`,
        ([all]) => freed(store(sql).dropPostings(project, [entry], all!.places))
      ),
    actsNotOn: {
      "in which another project's is": elsewhere("memory_posting"),
      "in which another entry's is": `update memory_posting set entry_id = '${id(59)}'`
    }
  })
  for (const [what, table, row] of [
    [
      "with a vector",
      "memory_embedding",
      `(project_id, entry_id, model, number, slot, vector) values ('${project}', '${entry}', 'm', 0, 0, '')`
    ],
    [
      "that waits for one",
      "embedding_queue",
      `(project_id, entry_id, due_at) values ('${project}', '${entry}', ${past})`
    ]
  ] as const)
    testConditions(it, `an entry ${what} is found`, {
      given: `${memory}; insert into ${table} ${row}`,
      act: (sql) => store(sql).embedded(project, [entry]),
      actsNotOn: {
        "in another project": elsewhere(table),
        "of another entry": `update ${table} set entry_id = '${id(59)}'`
      }
    })
  testConditions(it, "an entry of a chain is found", {
    given: `${memory}; update memory_entry set supersedes = '${id(55)}'`,
    act: (sql) => store(sql).linked(project, [entry]),
    actsOn: {
      "that has a successor": `
        update memory_entry
           set active = false, supersedes = null, superseded_by = '${id(55)}', superseded_at = ${past}`
    },
    actsNotOn: { ...notMine, "without a chain": "update memory_entry set supersedes = null" }
  })

  const predecessor = id(55)
  const chain = `${memory}; update memory_entry set supersedes = '${predecessor}';
    insert into memory_entry (
      project_id, id, kind, title, body, tags, actor, role, created_at, active, superseded_by, superseded_at)
    values ('${project}', '${predecessor}', 'note', 'old', 'old', '{}', 'agent', 'contributor', ${past}, false, '${entry}',
            ${past})`
  testConditions(it, "an entry leaves its chain", {
    given: chain,
    act: (sql) => store(sql).unlink(project, entry),
    actsNotOn: {
      "in another project": elsewhere("memory_entry", `where id = '${entry}'`),
      "if it is another one": otherEntry
    }
  })
  testConditions(it, "an entry forgets its predecessor", {
    given: chain,
    act: (sql) => store(sql).unlink(project, entry),
    seen: `select from memory_entry where id in ('${entry}', '${id(59)}') and supersedes is null`,
    actsNotOn: {
      "in another project": elsewhere("memory_entry", `where id = '${entry}'`),
      "if it is another one": otherEntry
    }
  })
  testConditions(it, "the predecessor forgets an entry", {
    given: chain,
    act: (sql) => store(sql).unlink(project, entry),
    seen: `select from memory_entry where title = 'old' and superseded_by is null`,
    actsNotOn: {
      "in another project": elsewhere("memory_entry", `where id = '${predecessor}'`),
      "if it is another one": `update memory_entry set id = '${id(59)}' where id = '${predecessor}'`
    }
  })
  testConditions(it, "an entry gets another predecessor", {
    given: memory,
    act: (sql) => store(sql).relink(project, entry, predecessor),
    seen: `select from memory_entry where supersedes = '${predecessor}'`,
    actsNotOn: notMine
  })
  testConditions(it, "an entry goes", {
    given: memory,
    act: (sql) => freed(store(sql).dropEntries(project, [entry])),
    actsNotOn: notMine
  })
  testConditions(it, "the count of active entries falls with one", {
    given: `${memory}; update memory_count set part = 2`,
    act: (sql) => store(sql).dropEntries(project, [entry]),
    seen: "select from memory_count where active = 0",
    actsNotOn: {
      "that was archived": "update memory_entry set active = false",
      "of another part": "update memory_count set part = 3",
      "of another project": elsewhere("memory_count")
    }
  })

  const answered = `${tasks}; update task set answer = '{"text": "Yes."}', answer_entry_id = '${entry}' ${ofTheTask}`
  testConditions(it, "an answer goes", {
    given: answered,
    act: (sql) => freed(store(sql).dropAnswers(project, [entry])),
    actsNotOn: {
      "in another project": elsewhere("task"),
      "that is another entry": `update task set answer_entry_id = '${id(59)}' ${ofTheTask}`
    }
  })
  testConditions(it, "a task forgets its answer", {
    given: `${answered}; update task set answer = '{"text": "No."}' where id = '${needed}'`,
    act: (sql) => store(sql).dropAnswers(project, [entry]),
    seen: `select from task where id = '${task}' and answer is null
            and exists (select from task where id = '${needed}' and answer is not null)`,
    actsNotOn: { "in another project": elsewhere("task", ofTheTask) }
  })
  // An import keeps the ids of the project that was exported.
  testConditions(it, "a task of the same id in another project keeps its answer", {
    given: `${answered};
      insert into task
      select (jsonb_populate_record(t, '{"project_id": "${otherProject}"}')).* from task t where id = '${task}'`,
    act: (sql) => store(sql).dropAnswers(project, [entry]),
    seen: `select from task where project_id = '${otherProject}' and answer is not null`,
    actsNotOn: {}
  })
  testConditions(it, "a task is locked", {
    given: tasks,
    act: (sql) => store(sql).lockTask(project, task),
    actsNotOn: { "in another project": elsewhere("task"), "if it is another one": otherTask }
  })
  testConditions(it, "the dependencies of a task go", {
    given: tasks,
    act: (sql) => store(sql).dropDependencies(project, task),
    seen: "select where not exists (select from task_dependency where project_id::text like '%-8000-%')",
    actsOn: { "of what waited for it": `update task_dependency set depends_on = '${task}', task_id = '${needed}'` },
    actsNotOn: {
      "in another project": elsewhere("task_dependency"),
      "of other tasks": `update task_dependency set task_id = '${id(59)}'`
    }
  })
  testConditions(it, "the notes of a task go", {
    given: noted,
    act: (sql) => freed(store(sql).dropNotes(project, task)),
    actsNotOn: {
      "in another project": elsewhere("task_note"),
      "of another task": `update task_note set task_id = '${needed}'`
    }
  })
  testConditions(it, "the receipts of a task go", {
    given: tasks,
    act: (sql) => freed(store(sql).dropReceipts(project, task)),
    actsNotOn: {
      "in another project": elsewhere("receipt"),
      "of another task": `update receipt set task_id = '${needed}'`
    }
  })
  testConditions(it, "old receipts go", {
    given: tasks,
    act: (sql) => freed(store(sql).dropReceiptsBefore(project, now, 9)),
    actsNotOn: {
      "in another project": elsewhere("receipt"),
      "of that very time": `update receipt set created_at = ${sqlNow}`
    }
  })
  testConditions(it, "the notices of a task go", {
    given: phone,
    act: (sql) => store(sql).dropNotices(project, task),
    seen: "select where not exists (select from push_outbox where project_id::text like '%-8000-%')",
    actsNotOn: {
      "in another project": elsewhere("push_outbox"),
      "of another task": `update push_outbox set reference = '${needed}'`
    }
  })
  testConditions(it, "a task goes", {
    given: tasks,
    act: (sql) => freed(store(sql).dropTask(project, task)),
    actsNotOn: { "in another project": elsewhere("task", ofTheTask), "if it is another one": otherTask }
  })
  testConditions(it, "what was part of a task stays without it", {
    given: `${tasks}; update task set parent = '${task}' where id = '${needed}'`,
    act: (sql) => store(sql).dropTask(project, task),
    seen: `select from task where id = '${needed}' and parent is null`,
    actsNotOn: {
      "in another project": elsewhere("task", `where id = '${needed}'`),
      "of another task": `update task set parent = '${id(59)}' where id = '${needed}'`
    }
  })
  testConditions(it, "an entry about a task stays without it", {
    given: `${memory}; update memory_entry set task_id = '${task}'`,
    act: (sql) => store(sql).dropTask(project, task),
    seen: `select from memory_entry where id = '${entry}' and task_id is null`,
    actsNotOn: {
      "in another project": elsewhere("memory_entry"),
      "about another task": `update memory_entry set task_id = '${needed}'`
    }
  })
  const remembered = `${projects};
    insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
    values ('${project}', 'task_create', 'k', ${hash("request")}, '{"id": "${task}"}', ${past})`
  testConditions(it, "a remembered result goes", {
    given: remembered,
    act: (sql) => freed(store(sql).dropResults(project, [task])),
    actsNotOn: {
      "in another project": elsewhere("idempotency_record"),
      "about something else": `update idempotency_record set result = '{"id": "${needed}"}'`
    }
  })
  testConditions(it, "a remembered result goes, and no other", {
    given: `${remembered};
      insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
      select '${project}', tool, key, ${hash("request")}, '{}', ${past}
        from (values ('task_create', 'other'), ('task_update', 'k')) as r (tool, key)`,
    bystander: "",
    act: (sql) => store(sql).dropResults(project, [task]),
    seen: `select from idempotency_record where result = '' having count(*) = 1`,
    actsNotOn: {}
  })
  testConditions(it, "what is erased counts no more", {
    given: memory,
    act: (sql) => store(sql).free(project, { stored_bytes: 40 }),
    seen: "select from project_usage where stored_bytes = 60",
    actsNotOn: { "in another project": elsewhere("project_usage") }
  })
})
