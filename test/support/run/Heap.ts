/** Live memory of a Node process that was started with `--inspect=127.0.0.1:PORT`. */
import { Effect } from "effect"

export const heapOf = (port: number) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const [target] = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as ReadonlyArray<{
          readonly webSocketDebuggerUrl: string
        }>
        const socket = new WebSocket(target!.webSocketDebuggerUrl)
        await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }))
        return socket
      }),
      (socket) => Effect.sync(() => socket.close())
    ),
    (socket) => {
      let last = 0
      const call = (method: string) =>
        Effect.callback<any>((resume) => {
          const id = ++last
          const onMessage = ({ data }: MessageEvent) => {
            const message = JSON.parse(data)
            if (message.id !== id) return
            socket.removeEventListener("message", onMessage)
            resume(Effect.succeed(message.result))
          }
          socket.addEventListener("message", onMessage)
          socket.send(JSON.stringify({ id, method }))
        })
      /** MiB of objects and buffers that remain after a garbage collection. */
      return Effect.map(
        Effect.andThen(call("HeapProfiler.collectGarbage"), call("Runtime.getHeapUsage")),
        ({ backingStorageSize = 0, usedSize }): number => (usedSize + backingStorageSize) / 2 ** 20
      )
    }
  )

/** The slope of the least-squares line through the points. */
export const slope = (points: ReadonlyArray<readonly [x: number, y: number]>) => {
  const mean = (of: 0 | 1) => points.reduce((sum, point) => sum + point[of], 0) / points.length
  const [x, y] = [mean(0), mean(1)]
  const covariance = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0)
  return covariance / points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0)
}
