/** The dashboard and the alerting rules ask only for metrics that docs/reference.md explains; test/operator/metrics.test.ts checks that they are served. */
import { assert, describe, it } from "@effect/vitest"
import { read, rows, sections } from "../../support/run/Markdown.ts"

const explained = rows(sections(read("docs/reference.md"), 2).get("Metrics")!) as ReadonlyArray<
  Record<"Metric" | "Kind" | "Labels", string>
>
const dashboard = JSON.parse(read("deploy/monitoring/dashboard.json"))
const rules = read("deploy/monitoring/alerts.yaml")

const asked: ReadonlyArray<{ expression: string }> = [
  ...dashboard.panels.flatMap(({ targets }: any) => targets.map(({ expr }: any) => ({ expression: expr }))),
  ...[...rules.matchAll(/^ +expr: (.+)$/gm)].map(([, expression]) => ({ expression: expression! }))
]

const named = (expression: string) =>
  [...expression.matchAll(/\b(?:service|process|nodejs)_\w+/g)].map(([name]) => name)

describe("the dashboard and the alerts", () => {
  it.each(asked)("query only metrics and labels that exist: $expression", ({ expression }) => {
    const names = named(expression)
    assert.isNotEmpty(names)
    for (const name of names) {
      const metric = explained.find(
        ({ Metric }) => Metric === name.replace(/_(bucket|sum|count)$/, "") || Metric === name
      )
      assert.isDefined(metric, name)
      assert.strictEqual(name.endsWith("_bucket"), metric.Kind === "histogram", name)
    }
    const labels = [...expression.matchAll(/\bby \((.*?)\)|\{(\w+)/g)].flatMap(([, by, of]) => by?.split(", ") ?? [of!])
    const known = names.flatMap((name) =>
      explained.filter(({ Metric }) => name.startsWith(Metric)).flatMap(({ Labels }) => Labels.split(", "))
    )
    assert.includeMembers([...known, "le"], labels)
  })

  it("use every metric", () => {
    const shown = asked.flatMap(({ expression }) => named(expression)).map((name) => name.replace(/_bucket$/, ""))
    assert.includeMembers(
      shown,
      explained.map(({ Metric }) => Metric)
    )
  })

  it("have a name, a severity and a summary in every rule", () => {
    const count = (pattern: RegExp) => [...rules.matchAll(pattern)].length
    const alerts = count(/^ {6}- alert: \w+$/gm)
    assert.isAbove(alerts, 5)
    assert.deepEqual(
      [/^ {8}expr: \S/gm, /^ {8}labels: \{ severity: (page|ticket) \}$/gm, /^ {10}summary: \S/gm].map(count),
      [alerts, alerts, alerts]
    )
  })
})
