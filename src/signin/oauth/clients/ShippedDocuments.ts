/**
 * Copies of the metadata documents of well-known clients, for a service without a way out to the internet.
 *
 * Each is what its client id serves; without what this service does not read: logos, addresses, keys. `doctor` compares
 * them with what it can fetch. A copy helps nobody who is not that client: the answer goes only to the client's own site, or
 * to the person's own computer.
 */
import { Option, Result } from "effect"
import { readMetadata } from "./ClientMetadata.ts"
import type { ClientMetadata } from "./Shapes.ts"

const grant_types = ["authorization_code", "refresh_token"]

/** By client id. Claude Code and Codex name theirs in their programs; the contents are of September 2026. */
export const shippedDocuments: Readonly<Record<string, object>> = {
  "https://claude.ai/oauth/claude-code-client-metadata": {
    client_name: "Claude Code",
    redirect_uris: ["http://localhost/callback", "http://127.0.0.1/callback"],
    grant_types
  },
  "https://claude.ai/oauth/mcp-oauth-client-metadata": {
    client_name: "Claude",
    redirect_uris: ["https://claude.ai/api/mcp/auth_callback"],
    grant_types
  },
  "https://chatgpt.com/oauth/codex/client.json": {
    client_name: "Codex",
    redirect_uris: ["http://127.0.0.1/callback", "http://localhost/callback"],
    grant_types
  },
  "https://chatgpt.com/oauth/client.json": {
    client_name: "ChatGPT",
    redirect_uris: ["https://chatgpt.com/connector_platform_oauth_redirect"],
    grant_types
  },
  "https://vscode.dev/oauth/client-metadata.json": {
    client_name: "Visual Studio Code",
    redirect_uris: ["http://127.0.0.1:33418/", "https://vscode.dev/redirect"],
    grant_types,
    application_type: "native"
  }
}

export const shippedDocument = (client_id: string): Option.Option<ClientMetadata> =>
  Object.hasOwn(shippedDocuments, client_id)
    ? Option.some(Result.getOrThrow(readMetadata(shippedDocuments[client_id])))
    : Option.none()
