/** Whether two samples of durations differ, after the slowest tenth of each is removed as noise of the machine. */

/** Without the slowest tenth. */
const cropped = (values: ReadonlyArray<number>) =>
  values.toSorted((one, other) => one - other).slice(0, Math.ceil(values.length * 0.9))

const moments = (values: ReadonlyArray<number>) => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1)
  return { mean, error: variance / values.length }
}

/** How much longer the second takes, as a share of the first, and Welch's t of that. */
export const compare = (first: ReadonlyArray<number>, second: ReadonlyArray<number>) => {
  const [one, other] = [moments(cropped(first)), moments(cropped(second))]
  const delta = other.mean - one.mean
  return { share: delta / one.mean, delta, t: delta / Math.sqrt(one.error + other.error) }
}

/** Noise makes either large, hardly ever both. */
export const differ = ({ share, t }: ReturnType<typeof compare>) => Math.abs(share) > 0.05 && Math.abs(t) > 10
