// The peer of bench/oauth.ts: oidc-provider in memory, with a public client and rotating refresh tokens. Its own in-memory
// adapter evicts entries beyond a thousand; this one keeps them all.
// Argument: the client's redirect URI. It sends { port } to its parent, and answers each message { count, code_challenge }
// with that many codes.
import { Provider } from "oidc-provider"

const entries = new Map()
class Memory {
  constructor(model) {
    this.model = model
  }
  key(id) {
    return `${this.model}:${id}`
  }
  async upsert(id, payload) {
    entries.set(this.key(id), payload)
  }
  async find(id) {
    return entries.get(this.key(id))
  }
  async consume(id) {
    entries.get(this.key(id)).consumed = Math.floor(Date.now() / 1000)
  }
  async destroy(id) {
    entries.delete(this.key(id))
  }
  async revokeByGrantId(grantId) {
    for (const [key, payload] of entries) if (payload.grantId === grantId) entries.delete(key)
  }
}

const redirect_uri = process.argv[2]
const provider = new Provider("http://127.0.0.1", {
  adapter: Memory,
  clients: [
    {
      client_id: "bench",
      application_type: "native",
      redirect_uris: [redirect_uri],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none"
    }
  ],
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  scopes: ["offline_access"],
  features: { devInteractions: { enabled: false } }
})
provider.on("server_error", (_, error) => process.stderr.write(`${error.stack}\n`))
provider.on("grant.error", (_, error) => process.stderr.write(`${error.error_detail}\n`))

const server = provider.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }))

process.on("message", async ({ code_challenge, count }) => {
  const client = await provider.Client.find("bench")
  const codes = []
  while (codes.length < count) {
    const grant = new provider.Grant({ accountId: "person", clientId: "bench" })
    grant.addOIDCScope("offline_access")
    const code = new provider.AuthorizationCode({
      accountId: "person",
      client,
      grantId: await grant.save(),
      gty: "authorization_code",
      redirectUri: redirect_uri,
      scope: "offline_access",
      codeChallenge: code_challenge,
      codeChallengeMethod: "S256"
    })
    codes.push(await code.save())
  }
  process.send(codes)
})
process.on("disconnect", () => process.exit())
