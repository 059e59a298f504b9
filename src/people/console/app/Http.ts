/** The files of the console as an app. They are the same for everybody and hold nothing of a project. */
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import { staticRoutes } from "../../../platform/edge/routes/StaticRoutes.ts"
import { png, svg } from "../../site/Icon.ts"
import { manifest } from "./Manifest.ts"
import { worker } from "./Worker.ts"

/** Neither a worker nor a picture of ours loads anything but the icons of a notification. */
const policy = { "content-security-policy": "default-src 'none'; img-src 'self'", "x-content-type-options": "nosniff" }

export const appPaths = [
  "/console/worker.js",
  "/console/manifest.webmanifest",
  "/console/icon.svg",
  "/console/icon.png",
  "/console/badge.png"
] as const

export const appRoutes = HttpRouter.use(() =>
  Effect.gen(function* () {
    const serve = yield* staticRoutes
    const script = "text/javascript; charset=utf-8"
    yield* serve("/console/worker.js", script, worker, { ...policy, "service-worker-allowed": "/console" })
    yield* serve("/console/manifest.webmanifest", "application/manifest+json", manifest, policy)
    yield* serve("/console/icon.svg", "image/svg+xml", svg, policy)
    yield* serve("/console/icon.png", "image/png", png(192, "icon"), policy)
    yield* serve("/console/badge.png", "image/png", png(96, "badge"), policy)
  })
)
