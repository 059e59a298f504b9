/** What the parent and its workers say to each other (decisions.md, Several processes). */

/** What a worker can be asked. */
export type Question = "metrics" | "load" | "samples"

export type Message =
  /** A worker serves, or wakes whoever delivers notifications. */
  | { readonly say: "ready" | "wake" }
  /** The parent replaces this worker: it ends once its clients have moved to others. */
  | { readonly say: "retire" }
  /** From a worker to the parent: to all workers or to the first one, and from there to each of them. */
  | { readonly say: "ask"; readonly id: number; readonly question: Question; readonly of: "all" | "first" }
  | { readonly say: "answer"; readonly id: number; readonly value: unknown }
  /** The metrics of a worker that ends. */
  | { readonly say: "last"; readonly value: unknown }
