/** The operator's command: one file per subcommand, over the same layers as the server. */
import { Command } from "effect/cli"
import { approveAccountReference } from "./approve-account-reference.ts"
import { archiveMemory } from "./archive-memory.ts"
import { backupDatabase } from "./backup-database.ts"
import { Json } from "./support/command.ts"
import { createBridgeEnrollmentCredential } from "./create-bridge-enrollment-credential.ts"
import { createOauthClient } from "./create-oauth-client.ts"
import { createProjectToken } from "./create-project-token.ts"
import { createProject } from "./create-project.ts"
import { disableOauthClient } from "./disable-oauth-client.ts"
import { disableProject } from "./disable-project.ts"
import { doctor } from "./doctor.ts"
import { enableProject } from "./enable-project.ts"
import { exportProject } from "./export-project.ts"
import { importProject } from "./import-project.ts"
import { listAccountReferences } from "./list-account-references.ts"
import { listAuditEvents } from "./list-audit-events.ts"
import { listBridgeEnrollmentCredentials } from "./list-bridge-enrollment-credentials.ts"
import { listBridges } from "./list-bridges.ts"
import { listDevices } from "./list-devices.ts"
import { listDocuments } from "./list-documents.ts"
import { listOauthClients } from "./list-oauth-clients.ts"
import { listOauthGrants } from "./list-oauth-grants.ts"
import { listProjectTokens } from "./list-project-tokens.ts"
import { listProjects } from "./list-projects.ts"
import { listPushDeadLetters } from "./list-push-dead-letters.ts"
import { migrate } from "./migrate.ts"
import { pinDocument } from "./pin-document.ts"
import { pushStatus } from "./push-status.ts"
import { rekeyPushTokens } from "./rekey-push-tokens.ts"
import { restoreDatabase } from "./restore-database.ts"
import { retryPushDeadLetters } from "./retry-push-dead-letters.ts"
import { revokeBridgeEnrollmentCredential } from "./revoke-bridge-enrollment-credential.ts"
import { revokeBridge } from "./revoke-bridge.ts"
import { revokeDevice } from "./revoke-device.ts"
import { revokeOauthGrant } from "./revoke-oauth-grant.ts"
import { revokeProjectToken } from "./revoke-project-token.ts"
import { run } from "./support/run.ts"
import { showBridge } from "./show-bridge.ts"
import { status } from "./status.ts"
import { unpinDocument } from "./unpin-document.ts"
import { withdrawAccountReference } from "./withdraw-account-reference.ts"

Command.make("service-admin").pipe(
  Command.withDescription(
    "Operates Bridge Service on its database, whether the server runs or not. Completions: service-admin --completions bash|zsh|fish"
  ),
  Command.withSubcommands([
    migrate,
    doctor,
    status,
    backupDatabase,
    restoreDatabase,
    createProject,
    listProjects,
    disableProject,
    enableProject,
    approveAccountReference,
    listAccountReferences,
    withdrawAccountReference,
    createBridgeEnrollmentCredential,
    listBridgeEnrollmentCredentials,
    revokeBridgeEnrollmentCredential,
    listBridges,
    showBridge,
    revokeBridge,
    createProjectToken,
    listProjectTokens,
    revokeProjectToken,
    createOauthClient,
    listOauthClients,
    disableOauthClient,
    listOauthGrants,
    revokeOauthGrant,
    pinDocument,
    listDocuments,
    unpinDocument,
    archiveMemory,
    exportProject,
    importProject,
    listDevices,
    revokeDevice,
    pushStatus,
    listPushDeadLetters,
    retryPushDeadLetters,
    rekeyPushTokens,
    listAuditEvents
  ]),
  Command.withGlobalFlags([Json]),
  run
)
