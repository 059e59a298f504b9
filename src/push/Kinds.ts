/**
 * The kinds of notification (spec 6.3): when a phone hears of what, unless its owner says otherwise.
 *
 * A payload carries no text of the project: the app holds the sentences, the payload names one of them.
 */
import { Duration } from "effect"

export const priorities = ["low", "normal", "high", "urgent"] as const
export type Priority = (typeof priorities)[number]

export interface Kind {
  /** Whether it is on for a device that says nothing about it. */
  readonly byDefault: boolean
  /** Whether its owner may switch it off. */
  readonly optional: boolean
  readonly priority: Priority
  /** How long it is worth delivering. */
  readonly lasts: Duration.Duration
  /** Groups notifications of which only the latest matters. */
  readonly collapse: string
  readonly category: "TASK" | "BRIDGE" | "SECURITY"
}

const kind = (
  priority: Priority,
  hours: number,
  collapse: string,
  category: Kind["category"],
  given: { readonly byDefault?: boolean; readonly optional?: boolean } = {}
): Kind => ({ byDefault: true, optional: true, priority, lasts: Duration.hours(hours), collapse, category, ...given })

export const kinds = {
  /** A task entered blocked, and not for a decision. */
  "task.blocked": kind("high", 24, "t", "TASK"),
  /** A task waits for a person's decision. */
  "task.needs_decision": kind("urgent", 24, "t", "TASK"),
  "task.completed": kind("low", 6, "t", "TASK", { byDefault: false }),
  "bridge.enrolled": kind("high", 72, "b", "BRIDGE"),
  "bridge.revoked": kind("urgent", 72, "b", "BRIDGE"),
  /** A rotation ended without confirmation: its window passed, or its predecessor was revoked meanwhile. */
  "bridge.rotation_failed": kind("high", 24, "b", "BRIDGE"),
  /** To the other devices of the same owner. */
  "security.device_added": kind("urgent", 72, "d", "SECURITY", { optional: false }),
  "security.client_authorized": kind("high", 72, "c", "SECURITY")
} as const satisfies Record<string, Kind>

export type KindName = keyof typeof kinds
export const kindNames = Object.keys(kinds) as ReadonlyArray<KindName>
