/**
 * The life of one Bridge as a pure transition function over small states: journal, processes, network, service.
 *
 * The codes are those of docs/protocol.md, the client's decisions those of src/client. Tokens, keys, credentials and
 * Idempotency-Keys are numbers in the order in which they were made. A rotation is named by the Idempotency-Key of its
 * prepare. Every Bridge here proves its key. Another project has a Bridge with a token and a key of its own, and a credential
 * of that project can be handed to this Bridge.
 */

export type Goal = "enroll" | "rotate" | "rotateKey" | "abort" | "revoke"

/** What the folder holds: `key.json` is `key` and `next`, `state.json` the rest. */
export interface Journal {
  readonly enrollment: { readonly credential: number; readonly done: boolean } | null
  readonly token: number | null
  readonly rotation: { readonly id: number; readonly successor: number | null } | null
  readonly key: number
  readonly next: { readonly id: number; readonly key: number } | null
}

export type Op =
  | "challenge"
  | "proof"
  | "prepare"
  | "confirm"
  | "abort"
  | "revoke"
  | "self"
  | "prepareKey"
  | "confirmKey"
  | "abortKey"

export interface Request {
  readonly op: Op
  /** The key that proves the request; of a thief's, none. */
  readonly by: number
  readonly token?: number
  /** The rotation, or the credential of an enrollment. */
  readonly id?: number
  /** The new key, or the one that enrolls. */
  readonly key?: number
}

export interface Answer {
  readonly code: string
  readonly token?: number
  readonly key?: number
}

/** pending, active, revoked, expired. */
type TokenState = "p" | "a" | "r" | "x"
/** pending, confirmed, aborted, expired, cancelled. */
type Ended = "p" | "c" | "a" | "e" | "k"

export interface Service {
  readonly identity: "none" | "active" | "revoked"
  readonly key: number
  readonly tokens: ReadonlyArray<TokenState>
  readonly credentials: ReadonlyArray<{
    readonly key: number | null
    readonly token: number | null
    /** It is of another project. */
    readonly foreign: boolean
  }>
  /** The Bridge belongs to another project than the one that it named. */
  readonly strayed: boolean
  readonly rotations: ReadonlyArray<{ id: number; from: number; to: number; state: Ended }>
  readonly keyRotations: ReadonlyArray<{ id: number; from: number; to: number; state: Ended }>
}

export interface Process {
  readonly goal: Goal
  /** The journal as the process has read and written it. */
  readonly memory: Journal
  readonly waiting: Request | null
  /** A write that an answer asks for. */
  readonly todo: Journal | null
  readonly begun: boolean
}

export interface World {
  readonly journal: Journal
  readonly processes: ReadonlyArray<Process | null>
  /** A request whose sender is gone. It may still arrive, once or more often. */
  readonly stray: Request | null
  readonly service: Service
  /** Idempotency-Keys and keys made so far. */
  readonly ids: number
  readonly keys: number
}

/** Faults of service or client that the exploration has to find. */
export type Bug =
  | "no lock"
  | "a credential opens any project"
  | "a rotation is found by its id alone"
  | "no proof"
  | "a confirm keeps the predecessor"
  | "a re-enrollment keeps the token"
  | "an ended rotation can be confirmed"
  | "a revocation of the Bridge keeps its tokens"
  | "token and key at once"
  | "the successor is not stored before confirm"
  | "the old key is dropped before confirm"
  | "the new key is not stored before prepare"
  | "the key is replaced during an enrollment"

const emptyJournal: Journal = { enrollment: null, token: null, rotation: null, key: 0, next: null }
export const newborn: World = {
  journal: emptyJournal,
  processes: [null, null],
  stray: null,
  service: {
    identity: "none",
    key: -1,
    tokens: [],
    credentials: [{ key: null, token: null, foreign: false }],
    strayed: false,
    rotations: [],
    keyRotations: []
  },
  ids: 0,
  keys: 1
}

const set = <A>(list: ReadonlyArray<A>, at: number, value: A) => list.map((one, index) => (index === at ? value : one))
const pending = <A extends { readonly state: Ended }>(list: ReadonlyArray<A>) => list.find(({ state }) => state === "p")
const ended = <A extends { readonly state: Ended }>(list: ReadonlyArray<A>, state: Ended) =>
  list.map((one) => (one.state === "p" ? { ...one, state } : one))

/** The service's answer to a request, and what the request changes. */
export const handle = (service: Service, request: Request, bug?: Bug): readonly [Service, Answer] => {
  const refuse = (code: string) => [service, { code }] as const
  const { credentials, identity, keyRotations, rotations, tokens } = service

  if (request.op === "challenge" || request.op === "proof") {
    const credential = credentials[request.id!]!
    if (credential.key !== null && credential.key !== request.key) return refuse("bridge_enrollment_credential_used")
    if (credential.foreign && bug !== "a credential opens any project") return refuse("project_mismatch")
    if (request.op === "challenge") {
      if (identity === "revoked" && credential.key === null) return refuse("bridge_revoked")
      return [
        { ...service, credentials: set(credentials, request.id!, { ...credential, key: request.key! }) },
        { code: "ok" }
      ]
    }
    if (identity === "revoked") return refuse("bridge_revoked")
    if (credential.token !== null) {
      if (tokens[credential.token] !== "a") return refuse("enrollment_challenge_consumed")
      return [service, { code: "ok", token: credential.token }]
    }
    const over = (state: TokenState): TokenState => (state === "a" || state === "p" ? "r" : state)
    return [
      {
        ...service,
        identity: "active",
        key: request.key!,
        strayed: credential.foreign,
        tokens: [...(bug === "a re-enrollment keeps the token" ? tokens : tokens.map(over)), "a"],
        credentials: set(credentials, request.id!, { ...credential, token: tokens.length }),
        rotations: ended(rotations, "k"),
        keyRotations: ended(keyRotations, "k")
      },
      { code: "ok", token: tokens.length }
    ]
  }

  if (request.token === neighbour) {
    // Its own token and key are fine; the rotation of another Bridge is unknown to it.
    if (bug !== "a rotation is found by its id alone") return refuse("bridge_rotation_not_found")
    const token = rotations.find(({ id }) => id === request.id)?.to ?? tokens.indexOf("a")
    return token < 0 ? refuse("bridge_rotation_not_found") : handle(service, { ...request, token, by: service.key })
  }
  const token = request.token!
  const keyRotation = keyRotations.find(({ id }) => id === request.id)
  const mayRetry =
    (request.op === "confirmKey" || request.op === "abortKey") &&
    keyRotation?.state === "c" &&
    keyRotation.from === request.by
  if (bug !== "no proof" && request.by !== service.key && !mayRetry) return refuse("bridge_proof_of_possession_invalid")
  if (identity === "revoked") return refuse("bridge_revoked")

  if (request.op === "confirm" || request.op === "abort") {
    const rotation = rotations.find(({ id }) => id === request.id)
    if (rotation === undefined || rotation.to !== token) {
      if (tokens[token] === "r") return refuse("bridge_token_revoked")
      if (tokens[token] === "x") return refuse("bridge_token_expired")
      return refuse(rotation === undefined ? "bridge_rotation_not_found" : "bridge_rotation_invalid_state")
    }
    const as = request.op === "confirm" ? "c" : "a"
    if (rotation.state === "c" && tokens[token] === "r") return refuse("bridge_token_revoked")
    if (rotation.state === "c" && tokens[token] === "x") return refuse("bridge_token_expired")
    if (rotation.state === as) return [service, { code: "ok" }]
    if (rotation.state === "c") return refuse("bridge_rotation_confirmed")
    if (rotation.state === "a" && bug !== "an ended rotation can be confirmed") return refuse("bridge_rotation_aborted")
    if (rotation.state === "k") return refuse("bridge_rotation_predecessor_revoked")
    if (as === "c" && tokens[rotation.from] === "x") return refuse("bridge_rotation_predecessor_expired")
    if (rotation.state === "e" && bug !== "an ended rotation can be confirmed") return refuse("bridge_rotation_expired")
    const others = bug === "a confirm keeps the predecessor" || as === "a" ? tokens : set(tokens, rotation.from, "r")
    return [
      {
        ...service,
        tokens: set(others, token, as === "c" ? "a" : "r"),
        rotations: rotations.map((one) => (one === rotation ? { ...one, state: as } : one))
      },
      { code: "ok" }
    ]
  }

  if (tokens[token] === "r") return refuse("bridge_token_revoked")
  if (tokens[token] === "x") return refuse("bridge_token_expired")
  if (tokens[token] === "p") return refuse("bridge_token_pending")

  switch (request.op) {
    case "self":
      return [service, { code: "ok", key: service.key }]
    case "revoke":
      return [
        {
          ...service,
          tokens: tokens.map((state) => (state === "a" || state === "p" ? "r" : state)),
          rotations: ended(rotations, "k"),
          keyRotations: ended(keyRotations, "k")
        },
        { code: "ok" }
      ]
    case "prepare": {
      const earlier = rotations.find(({ id }) => id === request.id)
      if (earlier !== undefined) {
        if (earlier.from !== token) return refuse("idempotency_conflict")
        if (earlier.state === "a") return refuse("bridge_rotation_aborted")
        if (earlier.state !== "p") return refuse("bridge_rotation_expired")
        return [service, { code: "ok", token: earlier.to }]
      }
      if (pending(keyRotations) !== undefined && bug !== "token and key at once")
        return refuse("bridge_key_rotation_in_progress")
      if (pending(rotations) !== undefined) return refuse("bridge_rotation_in_progress")
      const to = tokens.length
      return [
        {
          ...service,
          tokens: [...tokens, "p"],
          rotations: [...rotations, { id: request.id!, from: token, to, state: "p" }]
        },
        { code: "ok", token: to }
      ]
    }
    case "prepareKey": {
      if (keyRotation !== undefined) {
        if (keyRotation.state === "c") return refuse("bridge_key_rotation_confirmed")
        if (keyRotation.state === "a") return refuse("bridge_key_rotation_aborted")
        return keyRotation.state === "p" ? [service, { code: "ok" }] : refuse("bridge_key_rotation_expired")
      }
      if (pending(keyRotations) !== undefined) return refuse("bridge_key_rotation_in_progress")
      if (pending(rotations) !== undefined && bug !== "token and key at once")
        return refuse("bridge_rotation_in_progress")
      return [
        {
          ...service,
          keyRotations: [...keyRotations, { id: request.id!, from: service.key, to: request.key!, state: "p" }]
        },
        { code: "ok" }
      ]
    }
    case "confirmKey":
    case "abortKey": {
      if (keyRotation === undefined) return refuse("bridge_key_rotation_not_found")
      const as = request.op === "confirmKey" ? "c" : "a"
      if (keyRotation.state === as) return [service, { code: "ok" }]
      if (keyRotation.state === "c") return refuse("bridge_key_rotation_confirmed")
      if (keyRotation.state === "a") return refuse("bridge_key_rotation_aborted")
      if (keyRotation.state !== "p") return refuse("bridge_key_rotation_expired")
      return [
        {
          ...service,
          key: as === "c" ? keyRotation.to : service.key,
          keyRotations: keyRotations.map((one) => (one === keyRotation ? { ...one, state: as } : one))
        },
        { code: "ok" }
      ]
    }
  }
}

/** What a process does next by what it remembers. */
type Action =
  | { readonly write: Journal; readonly begins?: boolean; readonly makes?: "id" | "id and key" }
  | { readonly send: Request }
  | { readonly ends: string }

/** `credential`: the newest, which `enroll` uses. */
export const next = ({ begun, goal, memory }: Process, world: World, bug?: Bug): Action => {
  const { enrollment, key, next: newKey, rotation, token } = memory
  if (goal === "enroll") {
    const credential = world.service.credentials.length - 1
    const isForeign = world.service.credentials[credential]!.foreign
    if (begun && enrollment === null)
      return { ends: isForeign ? "project_mismatch" : "bridge_enrollment_credential_used" }
    if (enrollment?.credential !== credential) return { write: { ...memory, enrollment: { credential, done: false } } }
    if (!enrollment.done) return { send: { op: "challenge", by: key, id: credential, key } }
    // Only after an enrollment of its own: it has ended a key rotation under way.
    return begun && newKey !== null ? { write: { ...memory, next: null } } : { ends: "ok" }
  }
  if (token === null) return { ends: goal === "revoke" && begun ? "ok" : "NotEnrolled" }
  // A proof under way may still come to pass, with the old key: until then the key stays.
  const isEnrolling = enrollment?.done === false && bug !== "the key is replaced during an enrollment"
  if (goal === "rotateKey" && isEnrolling) return { ends: "NotEnrolled" }
  if (newKey !== null && !isEnrolling)
    return { send: { op: "prepareKey", by: key, token, id: newKey.id, key: newKey.key } }
  if (rotation !== null && (goal !== "revoke" || rotation.successor !== null)) {
    if (rotation.successor === null) return { send: { op: "prepare", by: key, token, id: rotation.id } }
    const op = goal === "abort" ? "abort" : "confirm"
    return { send: { op, by: key, token: rotation.successor, id: rotation.id } }
  }
  if (goal === "revoke") return { send: { op: "revoke", by: key, token } }
  if (begun || goal === "abort") return { ends: "ok" }
  if (goal === "rotate")
    return { write: { ...memory, rotation: { id: world.ids, successor: null } }, begins: true, makes: "id" }
  const fresh = { id: world.ids, key: world.keys }
  if (bug === "the new key is not stored before prepare")
    return { send: { op: "prepareKey", by: key, token, id: fresh.id, key: fresh.key } }
  return { write: { ...memory, next: fresh }, begins: true, makes: "id and key" }
}

/** What a process does about an answer. */
export const received = (process: Process, request: Request, { code, key, token }: Answer, bug?: Bug): Action => {
  const { goal, memory } = process
  const { next: newKey, rotation } = memory
  const write = (changes: Partial<Journal>) => ({ write: { ...memory, ...changes } })
  const promoted = () => write({ token: rotation!.successor, rotation: null })
  const isOneOf = (...codes: ReadonlyArray<string>) => codes.includes(code)
  const tokenEnded = isOneOf("bridge_token_revoked", "bridge_token_expired")
  const bothEnded = isOneOf("bridge_rotation_predecessor_revoked", "bridge_rotation_predecessor_expired")
  // A token that has ended is as good as revoked.
  if (goal === "revoke" && request.op !== "revoke" && request.op !== "confirm" && tokenEnded)
    return { send: { op: "revoke", by: memory.key, token: memory.token! } }
  if (goal === "revoke" && bothEnded) return { send: { op: "revoke", by: memory.key, token: memory.token! } }

  switch (request.op) {
    case "challenge":
      return code === "ok" ? { send: { ...request, op: "proof" } } : write({ enrollment: null })
    case "proof":
      if (code !== "ok") return { ends: code }
      return write({ enrollment: { credential: request.id!, done: true }, token: token!, rotation: null })
    case "prepare":
      if (code === "ok") {
        if (bug === "the successor is not stored before confirm")
          return { send: { op: "confirm", by: memory.key, token: token!, id: request.id! } }
        return write({ rotation: { id: request.id!, successor: token! } })
      }
      return isOneOf("bridge_rotation_expired", "bridge_rotation_aborted") ? write({ rotation: null }) : { ends: code }
    case "confirm":
      if (code === "ok") return write({ token: request.token!, rotation: null })
      if (code === "bridge_rotation_confirmed") return promoted()
      if (tokenEnded || isOneOf("bridge_rotation_expired", "bridge_rotation_not_found", "bridge_rotation_aborted"))
        return write({ rotation: null })
      return { ends: code }
    case "abort":
      if (code === "bridge_rotation_confirmed") return promoted()
      if (
        tokenEnded ||
        isOneOf("ok", "bridge_rotation_aborted", "bridge_rotation_expired", "bridge_rotation_not_found")
      )
        return write({ rotation: null })
      return { ends: code }
    case "revoke":
      return code === "ok" || tokenEnded ? write({ token: null, rotation: null, next: null }) : { ends: code }
    case "prepareKey":
      if (newKey === null && bug !== "the new key is not stored before prepare") return { ends: code }
      if (code === "ok") {
        if (bug === "the old key is dropped before confirm" && newKey !== null)
          return write({ key: newKey.key, next: null })
        return { send: { ...request, op: goal === "abort" ? "abortKey" : "confirmKey" } }
      }
      if (code === "bridge_proof_of_possession_invalid")
        return newKey === null ? { ends: code } : { send: { op: "self", by: newKey.key, token: memory.token! } }
      return isOneOf("bridge_key_rotation_expired", "bridge_key_rotation_aborted", "bridge_key_rotation_confirmed")
        ? write({ next: null })
        : { ends: code }
    case "confirmKey":
    case "abortKey":
      if (code === "ok") return write({ key: request.op === "confirmKey" ? request.key! : memory.key, next: null })
      if (isOneOf("bridge_proof_of_possession_invalid", "bridge_key_rotation_confirmed"))
        return newKey === null ? { ends: code } : { send: { op: "self", by: newKey.key, token: memory.token! } }
      return isOneOf("bridge_key_rotation_expired", "bridge_key_rotation_aborted", "bridge_key_rotation_not_found")
        ? write({ next: null })
        : { ends: code }
    case "self":
      return code === "ok" && key === newKey?.key ? write({ key: newKey!.key, next: null }) : { ends: code }
  }
}

/** A transition: its name, and the world after it. `seen`: what a recording of the real parts shows of it. */
export interface Step {
  readonly name: string
  readonly seen?: string
  readonly to: World
}

export interface Bounds {
  /** Idempotency-Keys that are made, one for each rotation. */
  readonly ids: number
  readonly keys: number
  readonly credentials: number
  readonly processes: number
}

/** What a folder with this journal shows from outside. */
export const shape = ({
  enrollment,
  next: newKey,
  rotation,
  token
}: Pick<Journal, "enrollment" | "next" | "rotation" | "token">) =>
  [
    enrollment?.done === false ? "enrolling" : "",
    token === null ? "" : "token",
    rotation === null ? "" : rotation.successor === null ? "prepared" : "stored",
    newKey === null ? "" : "next"
  ].join(",")

const goals: ReadonlyArray<Goal> = ["enroll", "rotate", "rotateKey", "abort", "revoke"]

const withProcess = (world: World, at: number, process: Process | null): World => ({
  ...world,
  processes: set(world.processes, at, process)
})

/** Whether a process has done what it was started for, once it has written this. */
export const hasBegun = ({ begun, goal, memory }: Process, write: Journal) =>
  begun || (goal === "enroll" && write.enrollment?.done !== false && memory.enrollment?.done === false)

/** Carries out what a process has decided, up to its next point. */
const acted = (world: World, at: number, action: Action): World => {
  const process = world.processes[at]!
  if ("ends" in action) return withProcess(world, at, null)
  if ("send" in action) return withProcess(world, at, { ...process, waiting: action.send, todo: null })
  return withProcess(
    {
      ...world,
      journal: action.write,
      ids: world.ids + (action.makes === undefined ? 0 : 1),
      keys: world.keys + (action.makes === "id and key" ? 1 : 0)
    },
    at,
    {
      ...process,
      memory: action.write,
      waiting: null,
      todo: null,
      begun: hasBegun(process, action.write) || action.begins === true
    }
  )
}

/** Every step that may come next. */
export const steps = (world: World, bounds: Bounds, bug?: Bug): ReadonlyArray<Step> => {
  const found: Array<Step> = []
  const { journal, processes, service, stray } = world
  const isLocked = processes.some((one) => one !== null) && bug !== "no lock"

  for (let at = 0; at < bounds.processes; at++) {
    const process = processes[at]!
    if (process === null) {
      if (isLocked) continue
      for (const goal of goals) {
        const started = { goal, memory: journal, waiting: null, todo: null, begun: isUnderWay(goal, journal) }
        found.push({ name: `${goal} begins`, to: withProcess(world, at, started) })
      }
      continue
    }
    const { waiting } = process
    found.push({
      name: "crash",
      seen: "crash",
      to: withProcess({ ...world, stray: waiting ?? stray }, at, null)
    })
    if (waiting === null) {
      const action = process.todo === null ? next(process, world, bug) : { write: process.todo }
      const makes = "makes" in action ? action.makes : undefined
      if (makes !== undefined && world.ids >= bounds.ids) continue
      if (makes === "id and key" && world.keys >= bounds.keys) continue
      found.push({
        name: "ends" in action ? `ends: ${action.ends}` : "send" in action ? `sends ${action.send.op}` : "writes",
        ...("write" in action && { seen: `write ${shape(action.write)}` }),
        to: acted(world, at, action)
      })
      continue
    }
    const [after, answer] = handle(service, waiting, bug)
    const action = received(process, waiting, answer, bug)
    const answered = { ...world, service: after }
    found.push({
      name: `${waiting.op}: ${answer.code}`,
      seen: `${waiting.op} ${answer.code}`,
      to:
        "write" in action
          ? withProcess(answered, at, { ...process, waiting: null, todo: action.write })
          : acted(answered, at, action)
    })
    // With a corrected clock.
    if (waiting.token !== undefined)
      found.push({ name: "proves again", seen: `${waiting.op} bridge_proof_of_possession_invalid`, to: world })
    found.push({ name: `${waiting.op}: answer lost`, seen: `${waiting.op} lost`, to: answered })
  }

  if (stray !== null) {
    const [after] = handle(service, stray, bug)
    if (after !== service) found.push({ name: `${stray.op} arrives late`, to: { ...world, service: after } })
  }

  // Time.
  if (pending(service.rotations) !== undefined || pending(service.keyRotations) !== undefined) {
    const successor = pending(service.rotations)?.to
    found.push({
      name: "the window passes",
      seen: "window",
      to: {
        ...world,
        service: {
          ...service,
          tokens: successor === undefined ? service.tokens : set(service.tokens, successor, "r"),
          rotations: ended(service.rotations, "e"),
          keyRotations: ended(service.keyRotations, "e")
        }
      }
    })
  }
  const active = service.tokens.indexOf("a")
  if (active >= 0)
    found.push({
      name: "the token expires",
      to: { ...world, service: { ...service, tokens: set(service.tokens, active, "x") } }
    })

  // The operator.
  if (service.identity === "active") {
    found.push({
      name: "the operator revokes the Bridge",
      seen: "revoked",
      to: { ...world, service: revoked(service, bug) }
    })
    if (service.credentials.length < bounds.credentials)
      for (const foreign of [false, true])
        found.push({
          name: `the operator issues a credential${foreign ? " of another project" : ""}`,
          seen: foreign ? "reissued elsewhere" : "reissued",
          to: { ...world, service: reissued(service, foreign) }
        })
  }
  return found
}

export const isUnderWay = (goal: Goal, { next: newKey, rotation }: Journal) =>
  (goal === "rotate" && rotation !== null) || (goal === "rotateKey" && newKey !== null)

const revoked = (service: Service, bug?: Bug): Service => ({
  ...service,
  identity: "revoked",
  tokens:
    bug === "a revocation of the Bridge keeps its tokens"
      ? service.tokens
      : service.tokens.map((state) => (state === "a" || state === "p" ? "r" : state)),
  rotations: ended(service.rotations, "k"),
  keyRotations: ended(service.keyRotations, "k")
})

/** The operator issues a re-enrollment credential. */
export const reissued = (service: Service, foreign = false): Service => ({
  ...service,
  credentials: [...service.credentials, { key: null, token: null, foreign }]
})

const endings = ["confirm", "abort", "confirmKey", "abortKey"] as const
const idsOf = ({ ids }: World) => Array.from({ length: ids + 1 }, (_, id) => id)

/** What a thief can send who has every token, every id and no key. */
export const thefts = (world: World): ReadonlyArray<Request> =>
  world.service.tokens.flatMap((_, token) =>
    (["prepare", "revoke", "prepareKey", ...endings] as const).flatMap((op) =>
      idsOf(world).map((id) => ({ op, token, id, by: -1, key: -1 }))
    )
  )

/** The token and the key of a Bridge of another project. */
const neighbour = -2

/** What that Bridge can send that has every id, and the credentials of its own project. */
export const intrusions = (world: World): ReadonlyArray<Request> => [
  ...endings.flatMap((op) => idsOf(world).map((id) => ({ op, token: neighbour, id, by: neighbour, key: neighbour }))),
  ...world.service.credentials.flatMap(({ foreign }, id) =>
    foreign ? (["challenge", "proof"] as const).map((op) => ({ op, id, by: neighbour, key: neighbour })) : []
  )
]
