/**
 * Opens connections that never finish a request, and reports when the server has closed them all: `node
 * SlowClientsMain.ts URL COUNT KINDS`. Prints `{"open":n}` when all are open, and a summary when all are closed.
 */
import { connect } from "node:net"

const [url = "", count = "0", named = ""] = process.argv.slice(2)
const { hostname, port } = new URL(url)

/** What each kind of client sends first, and then every two seconds. */
const kinds = {
  silent: ["", ""],
  "half a header": ["GET /healthz HTTP/1.1\r\nhost: x\r\nslow: ", "x"],
  "slow body": ["POST /bridge/v1/enrollment/proofs HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n", "x"],
  "slow chunks": ["POST /token HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"]
}
const chosen = named.split(",") as ReadonlyArray<keyof typeof kinds>

let opened = 0
let failed = 0
const lives: Array<number> = []
const talking = new Map<ReturnType<typeof connect>, string>()

const one = (index: number) =>
  new Promise<void>((resolve) => {
    const [first, then] = kinds[chosen[index % chosen.length]!]
    const socket = connect(Number(port), hostname)
    let since = 0
    socket.on("connect", () => {
      since = performance.now()
      opened++
      if (first !== "") socket.write(first!)
      if (then !== "") talking.set(socket, then!)
      resolve()
    })
    socket.on("error", () => {})
    socket.resume()
    socket.on("close", () => {
      talking.delete(socket)
      if (since === 0) failed++
      else lives.push(performance.now() - since)
      resolve()
      if (lives.length + failed === Number(count)) report()
    })
  })

const report = () => {
  clearInterval(trickle)
  const at_once = lives.filter((millis) => millis < 2000).length
  process.stdout.write(
    `${JSON.stringify({ closed: lives.length, at_once, longest_ms: Math.round(Math.max(...lives)) })}\n`
  )
}

const trickle = setInterval(() => {
  for (const [socket, text] of talking) socket.write(text)
}, 2000)

for (let from = 0; from < Number(count); from += 200) {
  await Promise.all(Array.from({ length: Math.min(200, Number(count) - from) }, (_, index) => one(from + index)))
}
process.stdout.write(`${JSON.stringify({ open: opened })}\n`)
