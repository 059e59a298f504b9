/** A message for a topic of ntfy (docs.ntfy.sh, "Publishing"). */
import { type Message, priorityOf, wordsOf } from "../Message.ts"

const priorities = { low: "2", normal: "3", high: "4", urgent: "5" }

export const ntfyRequest = (message: Message, [token]: ReadonlyArray<string>) => ({
  headers: {
    "content-type": "text/plain; charset=utf-8",
    title: wordsOf(message.kind),
    priority: priorities[priorityOf(message.kind)],
    click: message.url,
    ...(token !== undefined && { authorization: `Bearer ${token}` })
  },
  body: Buffer.from(message.title ?? "Open the console to see it.")
})
