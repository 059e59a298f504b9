/** A person who signs an agent in: src/client/OAuthClient.ts and a minimal browser that fills in the consent page. */
import { Duration, Effect, Option, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import * as OAuthClient from "../../src/client/OAuthClient.ts"
import { DemoError } from "./Stage.ts"

/** Nothing listens at this address: the browser stops when it is redirected there. */
export const callback = "http://127.0.0.1/callback"

export const person = (
  base_url: string,
  client_id: string,
  project_token: Redacted.Redacted<string>,
  via: typeof fetch
) => {
  let stored: Option.Option<OAuthClient.Tokens> = Option.none()
  return OAuthClient.make<DemoError>({
    resource: `${base_url}/mcp`,
    client_id,
    redirect_uri: callback,
    scopes: ["context:read", "memory:write", "tasks:write"],
    leeway: Duration.seconds(30),
    browser: (authorize) => consents(authorize, project_token, via),
    storage: {
      load: Effect.sync(() => stored),
      save: (tokens) => Effect.sync(() => void (stored = tokens))
    }
  }).pipe(Effect.provide(FetchHttpClient.layer), Effect.provideService(FetchHttpClient.Fetch, via))
}

/** A browser with cookies: opens pages, follows redirects, and sends the forms that it was shown. */
const browser = (via: typeof fetch, signal: AbortSignal) => {
  const cookies = new Map<string, string>()
  const open = async (url: URL, form?: URLSearchParams): Promise<{ readonly url: URL; readonly text: string }> => {
    const page = await via(url, {
      ...(form === undefined ? {} : { method: "POST", body: form }),
      headers: {
        cookie: [...cookies].map((pair) => pair.join("=")).join("; "),
        ...(form !== undefined && { origin: url.origin })
      },
      redirect: "manual",
      signal
    })
    for (const set of page.headers.getSetCookie()) {
      const [name, value] = set.split(";")[0]!.split("=")
      cookies.set(name!, value!)
    }
    const location = page.headers.get("location")
    if (location === null) return { url, text: await page.text() }
    const next = new URL(location, url)
    return next.href.startsWith(callback) ? { url: next, text: "" } : open(next)
  }
  /** Sends the form that goes to `path` with its hidden fields and one more. */
  const send = ({ text, url }: Awaited<ReturnType<typeof open>>, path: string, field: string, value: string) => {
    const hidden = [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)]
    const fields = hidden.map(([, name, value]): [string, string] => [name!, value!])
    return open(new URL(path, url), new URLSearchParams([...fields, [field, value]]))
  }
  return { open, send }
}

/** 1. Opens the consent page. 2. Submits the project token. 3. Allows. Returns the URL of the final redirect. */
export const consents = (authorize: URL, project_token: Redacted.Redacted<string>, via: typeof fetch) =>
  Effect.tryPromise({
    try: async (signal) => {
      const { open, send } = browser(via, signal)
      const signIn = await open(authorize)
      const decision = await send(signIn, "/oauth/consent", "project_token", Redacted.value(project_token))
      return (await send(decision, "/oauth/consent", "decision", "allow")).url
    },
    catch: () => new DemoError({ message: "The consent page did not lead back to the client." })
  })

/** 1. Opens the link, which leads to the sign-in page. 2. Submits the project token. 3. Answers the question. */
export const answers = (link: URL, project_token: Redacted.Redacted<string>, choice: string, via: typeof fetch) =>
  Effect.tryPromise({
    try: async (signal) => {
      const { open, send } = browser(via, signal)
      const signIn = await open(link)
      const task = await send(signIn, "/console/sign-in", "project_token", Redacted.value(project_token))
      const form = task.text.split("<form").find((one) => one.includes(`value="${choice}"`)) ?? ""
      const decided = await send({ ...task, text: form }, task.url.pathname, "choice", choice)
      if (!decided.text.includes("Decided")) throw new Error("The page does not show the decision.")
    },
    catch: () => new DemoError({ message: "The question could not be answered at the console." })
  })
