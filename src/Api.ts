/** The whole JSON contract: the OpenAPI document and the typed client are made from it. */
import { HttpApi, OpenApi } from "effect/http-api"
import { EnrollmentApi } from "./enrollment/Api.ts"
import { MobileApi } from "./mobile/Api.ts"
import { RetiredApi, RotationApi } from "./rotation/Api.ts"

export class Api extends HttpApi.make("service")
  .add(EnrollmentApi)
  .add(RotationApi)
  .add(RetiredApi)
  .add(MobileApi)
  .annotate(OpenApi.Title, "Bridge Service")
  .annotate(OpenApi.Version, "1") {}
