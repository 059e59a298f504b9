/**
 * Serves the console: which page and which form is at which path. Routes.ts says what every page goes through, Forms.ts what
 * a form does, access/SignIn.ts how a person signs in.
 *
 * With SERVICE_CONSOLE=off no route exists.
 */
import { Effect, Layer, Option } from "effect"
import { HttpRouter } from "effect/http"
import { onlyMethods } from "../../platform/edge/routes/Methods.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { Session } from "../../signin/sessions/Sessions.ts"
import { accessPage } from "./access/AccessPage.ts"
import { agentsPage } from "./access/AgentsPage.ts"
import { appsDone, appsPage, appsPath, endApp } from "./access/AppsPage.ts"
import { keyActions, keysDone, keysPage, keysPath } from "./access/KeysPage.ts"
import { signInRoutes } from "./access/SignIn.ts"
import { activityPage } from "./activity/ActivityPage.ts"
import { Subjects } from "./activity/Subjects.ts"
import { appPaths, appRoutes } from "./app/Http.ts"
import { bridgesPage } from "./bridges/BridgesPage.ts"
import { serviceBridgesPage } from "./bridges/ServiceBridgesPage.ts"
import { documentsPage } from "./DocumentsPage.ts"
import { consoleForms } from "./Forms.ts"
import { sections } from "./frame/Frame.ts"
import { entryPage } from "./memory/EntryPage.ts"
import { memoryActions } from "./memory/MemoryForms.ts"
import { memoryPage } from "./memory/MemoryPage.ts"
import { phonesPage } from "./phones/PhonesPage.ts"
import { pushPage } from "./phones/PushPage.ts"
import { consoleRoutes, home } from "./Routes.ts"
import { healthPage } from "./service/HealthPage.ts"
import { limitsPage } from "./service/LimitsPage.ts"
import { projectsPage } from "./service/ProjectsPage.ts"
import { taskActions } from "./tasks/TaskForms.ts"
import { taskPage } from "./tasks/TaskPage.ts"
import { tasksPage } from "./tasks/TasksPage.ts"
import { todayPage } from "./TodayPage.ts"
import { isUuid, maySee, NotHere } from "./View.ts"

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const subjects = yield* Subjects
    const all = yield* consoleRoutes(router)
    const { ownPage, page, projectPage, redirect, servicePage } = all
    const { actionForms, ownForm, projectForms } = yield* consoleForms(all)

    const showActivity = yield* activityPage
    yield* servicePage("projects", yield* projectsPage)
    yield* servicePage("bridges", yield* serviceBridgesPage)
    yield* servicePage("access", yield* accessPage)
    yield* servicePage("push", yield* pushPage)
    yield* servicePage("health", yield* healthPage)
    yield* servicePage("activity", showActivity)
    for (const path of serviceActionPages) yield* actionForms(`/console/${path}`)

    const tasks = { actions: yield* taskActions, list: yield* tasksPage, one: yield* taskPage }
    const entries = { actions: yield* memoryActions, list: yield* memoryPage, one: yield* entryPage }
    yield* projectPage("", yield* todayPage)
    yield* projectPage("tasks", tasks.list)
    yield* projectPage("tasks", tasks.one, "/:id")
    yield* projectForms("tasks", tasks.list, { create: tasks.actions.create })
    yield* projectForms(
      "tasks",
      tasks.one,
      { answer: tasks.actions.answer, change: tasks.actions.change, note: tasks.actions.note },
      "/:id"
    )
    yield* projectPage("memory", entries.list, "", true)
    yield* projectPage("memory", entries.one, "/:id")
    yield* projectForms("memory", entries.list, { add: entries.actions.add })
    yield* projectForms(
      "memory",
      entries.one,
      { archive: entries.actions.archive, supersede: entries.actions.supersede },
      "/:id"
    )
    yield* projectPage("bridges", yield* bridgesPage)
    yield* projectPage("documents", yield* documentsPage)
    yield* projectPage("agents", yield* agentsPage)
    yield* projectPage("phones", yield* phonesPage)
    yield* projectPage("activity", showActivity)
    yield* projectPage("limits", yield* limitsPage)
    for (const path of projectActionPages) yield* actionForms(`/console/:project/${path}`)

    yield* ownPage(keysPath, yield* keysPage, keysDone)
    yield* ownForm(keysPath, yield* keyActions)
    yield* ownPage(appsPath, yield* appsPage, appsDone)
    yield* ownForm(appsPath, yield* endApp)

    /** Leads to what a notification is about, so that a phone's app needs to know no project. */
    yield* page("/console/open/:id", (session) =>
      Effect.gen(function* () {
        const { id = "" } = yield* HttpRouter.params
        if (!isUuid(id)) return yield* new NotHere()
        const found = yield* subjects.find(id, session.token?.project_id)
        if (Option.isNone(found)) return yield* new NotHere()
        const { kind, project_id } = found.value
        return redirect(`/console/${project_id}/${kind === "task" ? `tasks/${id}` : sectionOf(kind)}`)
      })
    )
    // The router serves /console itself by this route, too.
    yield* page("/console/*", (session, request) =>
      request.url.split("?")[0] === home ? Effect.succeed(redirect(firstPage(session))) : new NotHere()
    )

    yield* signInRoutes(all)
  })
)

/** The first page that the session may see: of its project, or the list of projects. */
const firstPage = (session: Session) => {
  const { token } = session
  if (token === undefined) return "/console/projects"
  const [path] = sections.find(([, , needs]) => maySee(session, needs)) ?? sections[0]
  return path === "" ? `/console/${token.project_id}` : `/console/${token.project_id}/${path}`
}

/** The page that lists Bridges, agents or phones; as long as there is none, the one that says what happened. */
const sectionOf = (kind: "bridge" | "agent" | "phone"): string =>
  sections.map(([path]): string => path).find((path) => path === `${kind}s`) ?? "activity"

/** Pages with actions of the operator: of the service, and of a project. */
const serviceActionPages = ["projects", "bridges", "access", "push"] as const
const projectActionPages = ["documents", "bridges", "agents", "phones", "limits"] as const

export const ConsoleHttp = Layer.unwrap(
  Effect.map(Settings, ({ console }) =>
    console.enabled
      ? Layer.mergeAll(
          routes,
          appRoutes,
          ...appPaths.map((path) => onlyMethods(path, ["GET"])),
          onlyMethods("/console/sign-in", ["GET", "POST"]),
          onlyMethods("/console/enter", ["GET", "POST"]),
          onlyMethods("/console/sign-out", ["POST"]),
          onlyMethods(keysPath, ["GET", "POST"]),
          onlyMethods(appsPath, ["GET", "POST"]),
          ...["tasks", "tasks/:id", "memory", "memory/:id", ...projectActionPages].map((path) =>
            onlyMethods(`/console/:project/${path}`, ["GET", "POST"])
          ),
          ...serviceActionPages.map((path) => onlyMethods(`/console/${path}`, ["GET", "POST"])),
          onlyMethods("/console/*", ["GET"])
        )
      : Layer.empty
  )
)
