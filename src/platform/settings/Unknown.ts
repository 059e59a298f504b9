/** Variables that look like settings and are none: somebody misspelled a name, and the service ran on with the default. */
import { ConfigProvider } from "effect"

/** A provider that notes every name it is asked for. */
export const recording = (provider: ConfigProvider.ConfigProvider) => {
  const asked = new Set<string>()
  return {
    asked,
    provider: ConfigProvider.make((path) => {
      asked.add(path.join("_"))
      return provider.load(path)
    })
  }
}

/** Read elsewhere than in Settings.ts. */
const others = ["SERVICE_LOG_LEVEL", "SERVICE_PROJECT", "SERVICE_PROFILE", "SERVICE_OPERATOR_TOKEN_FILE"]

/** A sentence for each variable of `env` that begins with SERVICE_ and is not in `known`, with the likely name. */
export const unknownIn = (env: Readonly<Record<string, string | undefined>>, known: ReadonlySet<string>) => {
  const names = [...known, ...others]
  return Object.keys(env)
    .filter((name) => name.startsWith("SERVICE_") && !names.includes(name))
    .toSorted()
    .map((name) => {
      const likely = nearest(name, names)
      return `Not a setting: ${name}; ${likely === undefined ? "see docs/reference.md." : `did you mean ${likely}?`}`
    })
}

const nearest = (name: string, names: ReadonlyArray<string>) => {
  const [best] = names.map((other) => ({ other, steps: distance(name, other) })).toSorted((a, b) => a.steps - b.steps)
  return best !== undefined && best.steps <= 3 ? best.other : undefined
}

/** How many characters must be inserted, left out or changed (Levenshtein). */
const distance = (one: string, other: string) => {
  let above = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    for (let column = 1; column <= other.length; column++) {
      const changed = above[column - 1]! + (one[row - 1] === other[column - 1] ? 0 : 1)
      current.push(Math.min(changed, above[column]! + 1, current[column - 1]! + 1))
    }
    above = current
  }
  return above[other.length]!
}
