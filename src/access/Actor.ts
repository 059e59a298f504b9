export { type Actor, CurrentActor } from "../wire/Actor.ts"
export { Role, Scope, scopes } from "../wire/Scopes.ts"
