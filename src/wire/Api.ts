/** The whole JSON API. The OpenAPI document and the typed client are generated from it. */
import { HttpApi, OpenApi } from "effect/http-api"
import { EnrollmentApi } from "./bridges/EnrollmentApi.ts"
import { KeysApi } from "./bridges/KeysApi.ts"
import { MobileApi, WebPushApi } from "./mobile/MobileApi.ts"
import { RetiredApi, RotationApi } from "./bridges/RotationApi.ts"

export class Api extends HttpApi.make("service")
  .add(EnrollmentApi)
  .add(RotationApi)
  .add(KeysApi)
  .add(RetiredApi)
  .add(MobileApi)
  .add(WebPushApi)
  .annotate(OpenApi.Title, "Bridge Service")
  .annotate(OpenApi.Version, "1") {}
