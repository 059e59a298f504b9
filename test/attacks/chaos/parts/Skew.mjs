// Loaded before a server (node --import): for that process it is CHAOS_SKEW_MS milliseconds later than it is.
const by = Number(process.env.CHAOS_SKEW_MS)
const now = () => Reflect.apply(Real.now, Real, []) + by
const Real = Date
globalThis.Date = new Proxy(Real, {
  get: (real, name) => (name === "now" ? now : Reflect.get(real, name)),
  construct: (real, args) => Reflect.construct(real, args.length === 0 ? [now()] : args),
  apply: (real) => new real(now()).toString()
})
