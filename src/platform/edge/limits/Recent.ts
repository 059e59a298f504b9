/**
 * A map of bounded size that forgets what was not set for a while.
 *
 * It consists of two generations: `set` writes to the younger one. When that is half of `capacity`, or `period` has
 * passed, the older one is dropped as a whole and the younger one becomes the older. So every operation takes constant
 * time, without a timer, and an entry is kept for at least `period` unless `capacity / 2` others are set meanwhile.
 */
export interface Recent<Value> {
  readonly get: (key: string) => Value | undefined
  readonly set: (key: string, value: Value, now: number) => void
  readonly delete: (key: string) => void
  readonly size: () => number
}

/** `period` and `now` are in milliseconds. */
export const recent = <Value>(capacity: number, period: number): Recent<Value> => {
  let younger = new Map<string, Value>()
  let older = new Map<string, Value>()
  let since = -Infinity
  return {
    get: (key) => younger.get(key) ?? older.get(key),
    set: (key, value, now) => {
      if (younger.size >= capacity / 2 || now - since >= period) {
        older = younger
        younger = new Map()
        since = now
      }
      younger.set(key, value)
    },
    delete: (key) => {
      younger.delete(key)
      older.delete(key)
    },
    size: () => younger.size + older.size
  }
}
