// Preloaded into a server with `node --import`: the name hooks.example leads to this machine.
import dns from "node:dns"
import { syncBuiltinESMExports } from "node:module"
const real = dns.promises.lookup
dns.promises.lookup = (host, options) =>
  host === "hooks.example" ? Promise.resolve([{ address: "127.0.0.1", family: 4 }]) : real(host, options)
syncBuiltinESMExports()
