/** The pages of /docs by reader: each a Markdown file of the repository, or made from the tables of the code. */

export type Made = "tools" | "endpoints" | "codes" | "service"

export interface Entry {
  readonly path: `/docs/${string}`
  readonly title: string
  /** What it is read for, after its title on /docs. */
  readonly about: string
  readonly from: { readonly file: string; readonly own?: boolean } | { readonly made: Made }
}

interface Chapter {
  readonly title: string
  readonly about: string
  readonly entries: ReadonlyArray<Entry>
}

const file = (name: string, title: string, about: string, path?: `/docs/${string}`): Entry => ({
  path: path ?? `/docs/${name.slice(name.indexOf("/") + 1, -".md".length).toLowerCase()}`,
  title,
  about,
  from: { file: name }
})

/** A page whose commands are for callers of this service: its examples show this service's address. */
const addressed = (...page: Parameters<typeof file>): Entry => {
  const entry = file(...page)
  return { ...entry, from: { file: page[0], own: true } }
}

const made = (name: Made, title: string, about: string): Entry => ({
  path: `/docs/${name}`,
  title,
  about,
  from: { made: name }
})

export const chapters: ReadonlyArray<Chapter> = [
  {
    title: "Start",
    about: "New here",
    entries: [
      file(
        "README.md",
        "Getting started",
        "run the service, enroll a Bridge, connect an agent, answer its question",
        "/docs/start"
      ),
      file("docs/troubleshooting.md", "Troubleshooting", "find what you see, its cause and what to do"),
      file("docs/glossary.md", "Glossary", "look up a word")
    ]
  },
  {
    title: "Agents and clients",
    about: "You use a coding agent",
    entries: [
      addressed("docs/agents.md", "Connect an agent", "give a coding agent the memory and the tasks of a project"),
      made("tools", "Tools", "every tool with its parameters and scopes")
    ]
  },
  {
    title: "People",
    about: "You answer agents and follow their work",
    entries: [file("docs/console.md", "The console", "sign in, answer a question, follow tasks, let your phone ring")]
  },
  {
    title: "Operators",
    about: "You run the service",
    entries: [
      file("docs/run.md", "Run the service", "install, configure, monitor, back up, upgrade, replace secrets"),
      file("docs/emergencies.md", "Emergencies", "act on an alert or a leak, stop one thing or everything"),
      file("docs/reference.md", "Reference", "look up a setting, command, exit code, log line, metric or audit action"),
      file("docs/scaling.md", "Scaling", "run several processes behind a proxy, on other databases"),
      file("docs/benchmarks.md", "Benchmarks", "see how fast it is"),
      made("service", "This service", "its addresses, the lifetimes of its tokens, patterns for secret scanners")
    ]
  },
  {
    title: "Bridge and app authors",
    about: "You write a Bridge, a client or a phone app",
    entries: [
      addressed(
        "docs/bridges.md",
        "Write a Bridge",
        "two Bridges to start from, a walk by hand, a program that checks yours"
      ),
      file("docs/protocol.md", "Protocol", "every request, answer, code and state, with examples"),
      made("endpoints", "Endpoints", "the fields of every endpoint, as the code declares them"),
      made("codes", "Codes", "every code with its status and message")
    ]
  },
  {
    title: "Security reviewers",
    about: "You judge whether to trust it",
    entries: [
      file("docs/security.md", "Security", "what holds, where it is enforced and tested, what is not defended"),
      file("docs/specification.md", "Specification", "what the service promises, clause by clause"),
      file("docs/decisions.md", "Decisions", "why: the choices that the specification leaves open"),
      file("docs/proof.md", "Proof", "how it is attacked, and what must hold"),
      file("SECURITY.md", "Report a vulnerability", "whom to tell, and what to send", "/docs/vulnerabilities")
    ]
  },
  {
    title: "Contributors",
    about: "You change the code",
    entries: [
      file("CONTRIBUTING.md", "Contribute", "set up, test, add something, review, release"),
      file("docs/architecture.md", "Architecture", "the layers, the allowed imports, the way of a request"),
      file("docs/style.md", "Style", "write code and text like the rest"),
      file("CHANGELOG.md", "Changes", "what changed, by release")
    ]
  }
]

export const entries: ReadonlyArray<Entry> = chapters.flatMap((chapter) => chapter.entries)

/** The Bridges that authors start from, as plain text. */
export const examples = ["go", "py"].map((language) => ({
  path: `/docs/bridge.${language}` as const,
  file: `examples/bridge.${language}`
}))

const byFile = new Map([
  ...entries.flatMap((entry) => ("file" in entry.from ? [[entry.from.file, entry.path] as const] : [])),
  ...examples.map(({ file, path }) => [file, path] as const)
])

/** Where /docs shows a file of the repository. */
export const pageOf = (name: string): string | undefined => byFile.get(name)
