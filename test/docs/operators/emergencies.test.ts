/** docs/emergencies.md has a row for every alert, and explains every reason that the service gives for a pause. */
import { assert, describe, it } from "@effect/vitest"
import { outcomeOf } from "../../../src/push/channels/apns/ApnsOutcome.ts"
import { read, rows, sections } from "../../support/run/Markdown.ts"
import { sources } from "../../support/run/Sources.ts"

const parts = sections(read("docs/emergencies.md"), 2)

describe("docs/emergencies.md", () => {
  it("says what to do about every alert", () => {
    const named = [...read("deploy/monitoring/alerts.yaml").matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    const explained = rows(parts.get("An alert fired")!).map(({ Alert }) => Alert)
    assert.isNotEmpty(named)
    assert.deepStrictEqual(explained.toSorted(), named.toSorted())
  })

  it("explains each pause of push delivery by a reason the service reports", () => {
    const documented = rows(parts.get("Notifications do not come")!)
    assert.isAbove(documented.length, 5)
    for (const { Do, Reason } of documented)
      for (const [word] of Reason!.matchAll(/\w+/g)) {
        if (sources.includes(`reason: "${word}"`) || sources.includes(`lost("${word}")`)) continue
        // APNs sends temporary failures with status 429 or 503, and configuration errors with 400.
        const outcomes = (Do!.startsWith("nothing") ? [429, 503] : [400]).map((status) =>
          outcomeOf({ status, reason: word })
        )
        assert.isTrue(
          outcomes.some(({ _tag }) => ["Pause", "RenewProviderToken", "BadToken"].includes(_tag)),
          word
        )
      }
  })
})
