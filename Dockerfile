# The bundled server and service-admin, without npm and sources. See "Install" in docs/run.md.
#   docker build --build-arg BUILD_COMMIT=$(git rev-parse HEAD) -t bridge-service .
# Node 24.18.0, all its platforms; Dependabot proposes newer ones.

ARG NODE_IMAGE=node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d
FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
COPY scripts ./scripts
RUN npm ci --ignore-scripts
COPY src ./src
COPY cli ./cli
COPY migrations ./migrations
# What /docs shows.
COPY README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md ./
COPY docs ./docs
COPY examples ./examples
ARG BUILD_COMMIT=""
# The bill of materials lies beside the bundle, as dist/sbom.json.
RUN BUILD_COMMIT="$BUILD_COMMIT" node scripts/build.mjs && npm run -s sbom > dist/sbom.json

FROM ${NODE_IMAGE} AS database
WORKDIR /database
COPY package.json package-lock.json ./
COPY scripts ./scripts
# The bundle contains every package but the embedded PostgreSQL, whose install scripts link its shared libraries.
RUN npm ci --omit=dev

FROM ${NODE_IMAGE}
ENV NODE_ENV=production \
    SERVICE_DATA_DIR=/data \
    SERVICE_HOST=0.0.0.0
WORKDIR /service
COPY --from=database /database/node_modules ./node_modules
COPY --from=build /build/dist ./dist
COPY cli/bridge-service.mjs ./cli/
COPY cli/support/launch.mjs ./cli/support/
RUN ln -s /service/cli/bridge-service.mjs /usr/local/bin/bridge-service \
    && ln -s /service/cli/bridge-service.mjs /usr/local/bin/service-admin \
    && install -d -o node -g node -m 700 /data
USER node
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.SERVICE_PORT || 8787}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--disable-sigusr1", "--max-semi-space-size=16", "/service/dist/main.mjs"]
