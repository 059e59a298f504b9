/** The endpoint for operators elsewhere in the OpenAPI document; it is a plain route (CommandsHttp.ts). */
import { refuse } from "./Errors.ts"

const codes = [
  "unauthorized",
  "insufficient_scope",
  "operator_command_not_found",
  "operator_command_is_local",
  "invalid_request",
  "payload_too_large",
  "unsupported_media_type",
  "rate_limited",
  "bridge_persistence_error"
] as const

const refusals = Object.fromEntries(
  Object.entries(Object.groupBy(codes, (code) => refuse(code).status)).map(([status, same]) => [
    status,
    {
      description: same!.map((code) => refuse(code).message).join(" "),
      content: {
        "application/json": {
          schema: {
            type: "object",
            properties: {
              error: {
                type: "object",
                properties: { code: { type: "string", examples: same }, message: { type: "string" } },
                required: ["code", "message"]
              }
            },
            required: ["error"]
          }
        }
      }
    }
  ])
)

const flag = {
  anyOf: [{ type: "string" }, { type: "number" }, { type: "boolean" }, { type: "array", items: { type: "string" } }]
}

export const operatorSecurity = {
  operator_token: { type: "http", scheme: "bearer", description: "sop_..., made by create-operator-token" }
}

export const operatorPaths = {
  "/operator/v1/commands/{name}": {
    post: {
      tags: ["operators"],
      operationId: "operators.run",
      summary: "Runs a command of service-admin. A refusal of the command has the command's own code and status.",
      description:
        "Commands that only read need the scope operator:read, others operator:write. Those that run only where the database is are refused as operator_command_is_local.",
      security: [{ operator_token: [] }],
      parameters: [
        {
          name: "name",
          in: "path",
          required: true,
          description: "Of a command, as service-admin --help lists them",
          schema: { type: "string" },
          example: "list-bridges"
        }
      ],
      requestBody: {
        required: true,
        content: {
          "application/json": {
            schema: {
              type: "object",
              description: "The flags of the command, without dashes; one that is repeated takes a list, a switch true",
              additionalProperties: flag
            },
            example: { project: "Shop", limit: 2 }
          }
        }
      },
      responses: {
        200: {
          description: "What the command prints with --json",
          content: {
            "application/json": {
              schema: { type: "object" },
              example: { items: [{ bridge_id: "workshop", status: "active" }], after: "workshop" }
            }
          }
        },
        ...refusals
      }
    }
  }
}
