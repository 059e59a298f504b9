/** The moments of a session at which a hook runs. */
export const events = ["session-start", "compact", "stop"] as const
export type Event = (typeof events)[number]
