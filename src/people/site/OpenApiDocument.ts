/**
 * `GET /openapi.json` (spec 4.9): the declared contract, with what the declaration cannot say: where the service is, what the
 * groups are, an example of each request and answer, the endpoints of OAuth, and that for operators.
 */
import { OpenApi } from "effect/http-api"
import { operatorPaths, operatorSecurity } from "../../operator/tokens/Paths.ts"
import { Api } from "../../wire/Api.ts"
import type { MetadataOptions } from "../../signin/oauth/metadata/Metadata.ts"
import { oauthPaths } from "../../signin/oauth/metadata/Paths.ts"

const tags: Readonly<Record<string, string>> = {
  enrollment: "How a Bridge trades a bootstrap credential for its first token: challenge, then proof.",
  rotation: "How a Bridge replaces, describes and revokes its token.",
  keys: "How a Bridge replaces its key.",
  retired: "Routes that answer only that they have been replaced.",
  mobile: "How a phone or a browser registers for notifications.",
  web_push: "The key with which a browser subscribes.",
  oauth: "How a coding agent gets tokens for the MCP endpoint: authorization code with PKCE.",
  operators: "How an operator elsewhere runs commands of service-admin."
}

const ids = {
  project: "01990000-0000-7000-8000-000000000001",
  challenge: "01990000-0000-7000-8000-000000000002",
  token: "01990000-0000-7000-8000-000000000003",
  rotation: "01990000-0000-7000-8000-000000000004",
  aborted: "01990000-0000-7000-8000-000000000005",
  device: "01990000-0000-7000-8000-000000000006",
  key_rotation: "01990000-0000-7000-8000-000000000007"
}
const whose = { project_id: ids.project, bridge_id: "workshop" }
const bearer = { token_type: "Bearer", scope: "bridge:transport" }
const fingerprint = "sha256:56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"
const nonce = "__79_Pv6-fj39vX08_Lx8O_u7ezr6uno5-bl5OPi4eA"
const nextFingerprint = "sha256:24f6ed6acbfe1009c030d7ca567c33ca4830911498236b5561a6c82abec5de28"
const nextNonce = "397d3Nva2djX1tXU09LR0M_OzczLysnIx8bFxMPCwcA"
const preferences = { kinds: {}, minimum_priority: "low", quiet_hours: null, paused_until: null }
const device = {
  device_id: ids.device,
  state: "active",
  platform: "ios",
  push: { provider: "apns", environment: "production", topic: "com.example.app", token_fingerprint: "5e1f" },
  preferences,
  preferences_version: 1,
  created_at: "2026-11-21T12:00:00.000Z",
  last_seen_at: "2026-11-21T12:00:00.000Z"
}

interface Example {
  readonly request?: object
  readonly answer?: object
}

/** By operation. The values are synthetic, and the signatures are the right ones for the keys and nonces of docs/protocol.md. */
export const examples: Readonly<Record<string, Example>> = {
  "enrollment.createChallenge": {
    request: {
      ...whose,
      device_id: "device-1",
      display_name: "The Bridge in the workshop",
      public_key_fingerprint: fingerprint
    },
    answer: {
      challenge_id: ids.challenge,
      ...whose,
      public_key_fingerprint: fingerprint,
      nonce_b64: nonce,
      expires_at: "2026-11-21T12:10:00.000Z"
    }
  },
  "enrollment.prove": {
    request: {
      ...whose,
      challenge_id: ids.challenge,
      nonce_b64: nonce,
      signature_b64: "FKJzdLTgP9ZC137K-bnUbp5CfXVzFN6Y5yy691hrJFv-sCzOcFTkPauJLld7gD7z5zWD25KFbuRuSPCB6zX6Aw",
      public_key_b64: "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg"
    },
    answer: {
      ...whose,
      access_token: "sbt_000000000000000000000000000000000000000000110c8Pm",
      ...bearer,
      expires_at: "2026-11-22T12:00:00.000Z"
    }
  },
  "rotation.self": {
    answer: {
      ...whose,
      device_id: "device-1",
      display_name: "The Bridge in the workshop",
      account_references: ["github:octo"],
      scope: bearer.scope,
      token_id: ids.token,
      expires_at: "2026-11-22T12:00:00.000Z",
      pending_rotation: null,
      key: {
        public_key_fingerprint: fingerprint,
        since: "2026-11-21T12:00:00.000Z",
        rotation_required: false,
        pending_rotation: null
      }
    }
  },
  "rotation.prepare": {
    answer: {
      rotation_id: ids.rotation,
      successor_token: "sbt_00000000000000000000000000000000000000000023Bl4S4",
      ...bearer,
      confirmation_expires_at: "2026-11-22T11:05:00.000Z"
    }
  },
  "rotation.confirm": {
    request: { rotation_id: ids.rotation },
    answer: {
      rotation_id: ids.rotation,
      status: "confirmed",
      ...whose,
      ...bearer,
      expires_at: "2026-11-23T11:00:00.000Z"
    }
  },
  "rotation.abort": {
    request: { rotation_id: ids.aborted },
    answer: { rotation_id: ids.aborted, status: "aborted", ...whose }
  },
  "keys.prepareKey": {
    request: { public_key_fingerprint: nextFingerprint },
    answer: {
      key_rotation_id: ids.key_rotation,
      nonce_b64: nextNonce,
      confirmation_expires_at: "2026-11-23T10:05:00.000Z"
    }
  },
  "keys.confirmKey": {
    request: {
      key_rotation_id: ids.key_rotation,
      nonce_b64: nextNonce,
      public_key_b64: "Kay64UG8yvCyLhqU000LxzYeUm0L_hLIl5S8kyKWbdc",
      signature_b64: "MmQNwV1UNU7wtXvetw6K5eWqzF5wvPtYXxlIB7INgOUO34xoyyWHenDK9QY2R0c-ff1xmfPwowCWNyjb2t5hAw",
      predecessor_signature_b64:
        "zQtt_hahYkUyAf6ubsY_KWmLu7JtTC1v1hOerFDtANpnOmy8QK5D-WN8aUmx6NU-YALkTkR_07gV8O_ZSFSVDQ"
    },
    answer: { ...whose, public_key_fingerprint: nextFingerprint, rotated_at: "2026-11-23T10:01:00.000Z" }
  },
  "keys.abortKey": {
    request: { key_rotation_id: ids.key_rotation },
    answer: { key_rotation_id: ids.key_rotation, status: "aborted" }
  },
  "rotation.revoke": { answer: { status: "revoked", revoked_at: "2026-11-23T10:02:00.000Z" } },
  "mobile.register": {
    request: {
      platform: "ios",
      push: { provider: "apns", environment: "production", topic: "com.example.app", token: "00".repeat(32) },
      app_version: "1.0.0"
    },
    answer: device
  },
  "mobile.get": { answer: device },
  "mobile.setPreferences": {
    request: preferences,
    answer: { device_id: ids.device, preferences, version: 2 }
  },
  "mobile.revoke": {
    answer: { device_id: ids.device, state: "revoked", revoked_at: "2026-11-23T10:02:00.000Z" }
  },
  "mobile.test": { answer: { device_id: ids.device, outcome: "accepted", status: 200, reason: null } },
  "web_push.webPushKey": {
    answer: {
      public_key: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    }
  }
}

interface Body {
  readonly content?: Readonly<Record<string, object>>
}

/** Only JSON has examples. */
const withExample = <B extends Body>(body: B, example: object | undefined): B =>
  body.content?.["application/json"] === undefined || example === undefined
    ? body
    : { ...body, content: { ...body.content, "application/json": { ...body.content["application/json"], example } } }

type Definitions = Readonly<Record<string, { readonly description?: string }>>

/** Tools show the description of a parameter, not that of its schema. */
const described = (parameter: OpenApi.OpenAPISpecParameter, definitions: Definitions) => {
  const { $ref: name = "", description = definitions[name.slice(name.lastIndexOf("/") + 1)]?.description } =
    parameter.schema as { readonly $ref?: string; readonly description?: string }
  return { ...parameter, description }
}

const documented = (operation: OpenApi.OpenAPISpecOperation, definitions: Definitions) => {
  const { answer, request } = examples[operation.operationId] ?? {}
  return {
    ...operation,
    parameters: operation.parameters.map((parameter) => described(parameter, definitions)),
    ...(operation.tags?.includes("retired") && { deprecated: true }),
    ...(operation.requestBody && { requestBody: withExample(operation.requestBody, request) }),
    responses: Object.fromEntries(
      Object.entries(operation.responses).map(([status, response]) => [
        status,
        status < "300" ? withExample(response, answer) : response
      ])
    )
  }
}

const mapped = <A, B>(record: Readonly<Record<string, A>>, change: (value: A) => B) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]))

export const openApiDocument = (options: MetadataOptions) => {
  const { components, info, paths, ...declared } = OpenApi.fromApi(Api)
  return {
    ...declared,
    components: { ...components, securitySchemes: { ...components.securitySchemes, ...operatorSecurity } },
    info: {
      ...info,
      summary: "Enrolls local agents with a key of their own, and gives coding agents one project's continuity.",
      description:
        "The endpoints for Bridges, phones and operators, and those of OAuth. Coding agents use MCP at /mcp, which describes itself. The pages at /docs say how everything fits together.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" }
    },
    servers: [{ url: options.base_url }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: {
      ...mapped(paths, (operations) =>
        mapped(operations as Record<string, OpenApi.OpenAPISpecOperation>, (operation) =>
          documented(operation, components.schemas as Definitions)
        )
      ),
      ...oauthPaths(options),
      ...operatorPaths
    }
  }
}
