// Preloaded into a server with `node --import`: its clock is CHAOS_SKEW_MS milliseconds fast.
const by = Number(process.env.CHAOS_SKEW_MS)
const now = () => Reflect.apply(Real.now, Real, []) + by
const Real = Date
globalThis.Date = new Proxy(Real, {
  get: (real, name) => (name === "now" ? now : Reflect.get(real, name)),
  construct: (real, args) => Reflect.construct(real, args.length === 0 ? [now()] : args),
  apply: (real) => new real(now()).toString()
})
