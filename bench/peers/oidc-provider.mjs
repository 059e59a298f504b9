// The peer of bench/oauth.ts: oidc-provider with a public client and rotating refresh tokens. Its own in-memory adapter
// evicts entries beyond a thousand; this one keeps them all.
// Arguments: the client's redirect URI, and the PostgreSQL that it uses instead of its memory. It sends { port } to its
// parent, and answers each message { count, code_challenge } with that many codes.
import { Pool } from "pg"
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

const [, , redirect_uri, database] = process.argv

/** One table with an index by grant, and prepared statements. */
const postgres = async (pool) => {
  await pool.query(`
    create table oidc_entry (
      model text, id text, payload jsonb not null, grant_id text, consumed_at timestamptz, expires_at timestamptz not null,
      primary key (model, id))`)
  await pool.query("create index on oidc_entry (grant_id)")
  const run = async (name, text, values) => (await pool.query({ name, text, values })).rows
  return class {
    constructor(model) {
      this.model = model
    }
    async upsert(id, payload, expiresIn) {
      await run(
        "upsert",
        `insert into oidc_entry (model, id, payload, grant_id, expires_at)
         values ($1, $2, $3, $4, now() + $5 * interval '1 second')
             on conflict (model, id) do update
            set payload = excluded.payload, grant_id = excluded.grant_id, expires_at = excluded.expires_at`,
        [this.model, id, JSON.stringify(payload), payload.grantId ?? null, expiresIn ?? 14 * 86_400]
      )
    }
    async find(id) {
      const text = `
        select payload, extract(epoch from consumed_at)::int as consumed
          from oidc_entry
         where model = $1 and id = $2 and expires_at > now()`
      const [row] = await run("find", text, [this.model, id])
      if (row === undefined) return undefined
      return row.consumed === null ? row.payload : { ...row.payload, consumed: row.consumed }
    }
    async consume(id) {
      await run("consume", "update oidc_entry set consumed_at = now() where model = $1 and id = $2", [this.model, id])
    }
    async destroy(id) {
      await run("destroy", "delete from oidc_entry where model = $1 and id = $2", [this.model, id])
    }
    async revokeByGrantId(grantId) {
      await run("revoke", "delete from oidc_entry where grant_id = $1", [grantId])
    }
  }
}
const adapter =
  database === undefined
    ? Memory
    : await postgres(new Pool({ ...JSON.parse(database), user: "postgres", database: "postgres" }))

const provider = new Provider("http://127.0.0.1", {
  adapter,
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
