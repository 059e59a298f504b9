/**
 * A scripted model behind the four APIs that clients speak: Anthropic's messages, OpenAI's responses and chat completions,
 * and Gemini's generateContent, all as streams. It asks for one tool call a turn, in order, and then says that it is done;
 * where the script says "done", it also says so, and goes on if it is asked again.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface ToolCall {
  readonly tool: string
  readonly given: object
}

export interface ScriptedModel {
  readonly url: string
  /** What the client sent first. */
  readonly beginning: () => string
  /** What the client sent after each call and each "done": a result, or what a hook says. */
  readonly results: () => ReadonlyArray<string>
  readonly stop: () => void
}

const bodyOf = async (request: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  return text === "" ? {} : JSON.parse(text)
}

/** The names of the tools that a request offers, whatever the API. */
const offered = (body: any): ReadonlyArray<string> => {
  const names: Array<string> = []
  for (const tool of body.tools ?? []) {
    for (const { name } of tool.functionDeclarations ?? tool.function_declarations ?? []) names.push(name)
    // Codex groups the tools of a server in a namespace.
    for (const { name } of tool.tools ?? []) names.push(`${tool.name}\n${name}`)
    const name = tool.function?.name ?? tool.name
    if (name !== undefined && tool.tools === undefined) names.push(name)
  }
  return names
}

/** The last thing that a client told the model. */
const lastOf = (body: any): string => JSON.stringify((body.messages ?? body.input ?? body.contents ?? []).at(-1) ?? "")

export const scriptedModel = async (script: ReadonlyArray<ToolCall | "done">): Promise<ScriptedModel> => {
  let asked = 0
  let beginning = ""
  const results: Array<string> = []
  const next = (body: any) => {
    const names = offered(body)
    // A side request, such as for the title of the session.
    if (names.length === 0) return undefined
    if (beginning === "") beginning = JSON.stringify(body)
    if (asked > results.length) results.push(lastOf(body))
    const call = script[asked]
    if (call === "done") {
      asked += 1
      return undefined
    }
    const name = call && names.find((name) => name.endsWith(call.tool))
    if (call === undefined || name === undefined) return undefined
    asked += 1
    const [bare, namespace] = name.split("\n").toReversed()
    return { id: `call_${asked}`, name: bare!, namespace, given: call.given }
  }
  const stream = (response: ServerResponse, events: ReadonlyArray<object>, named: boolean) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (const event of events) {
      const type = (event as { type?: string }).type
      response.write(`${named && type !== undefined ? `event: ${type}\n` : ""}data: ${JSON.stringify(event)}\n\n`)
    }
    response.end()
  }

  const messages = (body: any, response: ServerResponse) => {
    const call = next(body)
    const block =
      call === undefined
        ? { start: { type: "text", text: "" }, delta: { type: "text_delta", text: "Done." } }
        : {
            start: { type: "tool_use", id: call.id, name: call.name, input: {} },
            delta: { type: "input_json_delta", partial_json: JSON.stringify(call.given) }
          }
    const usage = { input_tokens: 1, output_tokens: 1 }
    const stop_reason = call === undefined ? "end_turn" : "tool_use"
    const message = { id: "msg_1", type: "message", role: "assistant", model: body.model, stop_sequence: null, usage }
    if (body.stream !== true) {
      const content = call === undefined ? { type: "text", text: "Done." } : { ...block.start, input: call.given }
      response.writeHead(200, { "content-type": "application/json" })
      return response.end(JSON.stringify({ ...message, content: [content], stop_reason }))
    }
    stream(
      response,
      [
        { type: "message_start", message: { ...message, content: [], stop_reason: null } },
        { type: "content_block_start", index: 0, content_block: block.start },
        { type: "content_block_delta", index: 0, delta: block.delta },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
        { type: "message_stop" }
      ],
      true
    )
  }

  const responses = (body: any, response: ServerResponse) => {
    const call = next(body)
    const item =
      call === undefined
        ? { type: "message", role: "assistant", id: "msg_1", content: [{ type: "output_text", text: "Done." }] }
        : {
            type: "function_call",
            id: `fc_${call.id}`,
            call_id: call.id,
            name: call.name,
            ...(call.namespace !== undefined && { namespace: call.namespace }),
            arguments: JSON.stringify(call.given)
          }
    const usage = {
      input_tokens: 1,
      input_tokens_details: null,
      output_tokens: 1,
      output_tokens_details: null,
      total_tokens: 2
    }
    stream(
      response,
      [
        { type: "response.created", response: { id: "resp_1" } },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: { id: "resp_1", output: [item], usage } }
      ],
      true
    )
  }

  const chat = (body: any, response: ServerResponse) => {
    const call = next(body)
    const delta =
      call === undefined
        ? { role: "assistant", content: "Done." }
        : {
            role: "assistant",
            tool_calls: [
              {
                index: 0,
                id: call.id,
                type: "function",
                function: { name: call.name, arguments: JSON.stringify(call.given) }
              }
            ]
          }
    const chunk = { id: "chat_1", object: "chat.completion.chunk", created: 0, model: body.model }
    stream(
      response,
      [
        { ...chunk, choices: [{ index: 0, delta, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: call === undefined ? "stop" : "tool_calls" }] }
      ],
      false
    )
  }

  const generate = (body: any, response: ServerResponse, streamed: boolean) => {
    const call = next(body)
    const part = call === undefined ? { text: "Done." } : { functionCall: { name: call.name, args: call.given } }
    const answer = { candidates: [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }] }
    if (streamed) return stream(response, [answer], false)
    response.writeHead(200, { "content-type": "application/json" })
    response.end(JSON.stringify(answer))
  }

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url!, "http://model")
    const body = await bodyOf(request).catch(() => ({}))
    if (pathname.endsWith("/messages")) return messages(body, response)
    if (pathname.endsWith("/responses")) return responses(body, response)
    if (pathname.endsWith("/chat/completions")) return chat(body, response)
    if (pathname.includes(":streamGenerateContent")) return generate(body, response, true)
    if (pathname.includes(":generateContent")) return generate(body, response, false)
    response.writeHead(200, { "content-type": "application/json" })
    response.end(
      JSON.stringify(pathname.includes("countTokens") ? { totalTokens: 1, input_tokens: 1 } : { data: [], models: [] })
    )
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    beginning: () => beginning,
    results: () => results,
    stop: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}
