/**
 * Opens connections that never finish a request: `node SlowClientsMain.ts URL COUNT KINDS`. Prints `{"open":n}` when all
 * are open, and a summary when the server has closed them all.
 */
import { connect } from "node:net"

const [url = "", count = "0", named = ""] = process.argv.slice(2)
const { hostname, port } = new URL(url)

/** Kind -> what it sends first, and what it repeats every two seconds. */
const kinds = {
  silent: ["", ""],
  "half a header": ["GET /healthz HTTP/1.1\r\nhost: x\r\nslow: ", "x"],
  "slow body": ["POST /bridge/v1/enrollment/proofs HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n", "x"],
  "slow chunks": ["POST /token HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"]
}
const chosen = named.split(",") as ReadonlyArray<keyof typeof kinds>

let opened = 0
let failed = 0
const lifetimes: Array<number> = []
const trickling = new Map<ReturnType<typeof connect>, string>()

const open = (index: number) =>
  new Promise<void>((resolve) => {
    const [first, repeated] = kinds[chosen[index % chosen.length]!]
    const socket = connect(Number(port), hostname)
    let openedAt = 0
    socket.on("connect", () => {
      openedAt = performance.now()
      opened++
      if (first !== "") socket.write(first!)
      if (repeated !== "") trickling.set(socket, repeated!)
      resolve()
    })
    socket.on("error", () => {})
    socket.resume()
    socket.on("close", () => {
      trickling.delete(socket)
      if (openedAt === 0) failed++
      else lifetimes.push(performance.now() - openedAt)
      resolve()
      if (lifetimes.length + failed === Number(count)) report()
    })
  })

const report = () => {
  clearInterval(trickle)
  const at_once = lifetimes.filter((millis) => millis < 2000).length
  process.stdout.write(
    `${JSON.stringify({ closed: lifetimes.length, at_once, longest_ms: Math.round(Math.max(...lifetimes)) })}\n`
  )
}

const trickle = setInterval(() => {
  for (const [socket, text] of trickling) socket.write(text)
}, 2000)

for (let from = 0; from < Number(count); from += 200) {
  await Promise.all(Array.from({ length: Math.min(200, Number(count) - from) }, (_, index) => open(from + index)))
}
process.stdout.write(`${JSON.stringify({ open: opened })}\n`)
