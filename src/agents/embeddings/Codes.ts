/**
 * The signs of a project's vectors in memory, up to date with the database before each search: only blocks that changed are
 * read again. Together they take at most 64 MiB; the projects that were not searched for longest give way. Of one project the
 * newest 16 MiB are searched, so that no project empties the memory of the others, nor reads more than that in a search.
 */
import { Effect } from "effect"
import { blockSize, type make } from "./EmbeddingStore.ts"
import { codeBytes, distance } from "./Vectors.ts"

type Store = Pick<ReturnType<typeof make>, "blocks" | "versions">

interface Block {
  readonly version: number
  readonly ids: Buffer
  readonly codes: Uint32Array
  /** Whether it has cleared slots. */
  readonly cleared: boolean
}
type Blocks = ReadonlyMap<number, Block>

const most = 64 * 1024 * 1024
const mostOfProject = most / 4
/** Blocks that are read or compared before others get a turn: 16,384 vectors. */
const atOnce = 64

export const makeCodes = (store: Store, model: string, dimensions: number) => {
  const words = codeBytes(dimensions) / 4
  const mostBlocks = Math.floor(mostOfProject / (blockSize * (16 + codeBytes(dimensions))))
  /** The least recently searched project first. */
  const kept = new Map<string, Blocks>()
  let bytes = 0

  const sizeOf = (blocks: Blocks) =>
    [...blocks.values()].reduce((sum, { codes, ids }) => sum + codes.byteLength + ids.byteLength, 0)

  const keep = (project_id: string, blocks: Blocks) => {
    bytes -= sizeOf(kept.get(project_id) ?? new Map())
    kept.delete(project_id)
    kept.set(project_id, blocks)
    bytes += sizeOf(blocks)
    for (const [oldest, others] of kept) {
      if (bytes <= most) break
      kept.delete(oldest)
      bytes -= sizeOf(others)
    }
  }

  /** The project's newest blocks as they are now. */
  const blocksOf = Effect.fnUntraced(function* (project_id: string) {
    const versions = (yield* store.versions(project_id, model)).slice(-mostBlocks)
    const before = kept.get(project_id)
    const blocks = new Map<number, Block>()
    const changed: Array<number> = []
    for (const { number, version } of versions) {
      const known = before?.get(number)
      if (known?.version === version) blocks.set(number, known)
      else changed.push(number)
    }
    for (let from = 0; from < changed.length; from += atOnce) {
      for (const { codes, ids, number, version } of yield* store.blocks(
        project_id,
        model,
        changed.slice(from, from + atOnce)
      )) {
        blocks.set(number, blockOf(version, ids, codes))
      }
    }
    keep(project_id, blocks)
    return blocks
  })

  /** The ids of the `limit` vectors whose signs differ least. */
  const nearest = Effect.fnUntraced(function* (blocks: Blocks, signs: Uint32Array, limit: number) {
    const all = [...blocks.values()]
    /** By how many signs differ: how many vectors. */
    const counts = new Uint32Array(32 * words + 1)
    const distances: Array<Uint16Array> = []
    for (const [n, block] of all.entries()) {
      if (n % atOnce === atOnce - 1) yield* Effect.yieldNow
      distances.push(distancesOf(block, signs, counts))
    }
    // All vectors that are nearer than `farthest` fit into the limit, and `left` of those that are as far.
    let [farthest, left] = [0, limit]
    while (farthest < counts.length && counts[farthest]! <= left) left -= counts[farthest++]!
    const ids: Array<string> = []
    for (let n = 0; n < all.length; n++) {
      const of = distances[n]!
      for (let slot = 0; slot < of.length; slot++) {
        const far = of[slot]!
        if (far < farthest || (far === farthest && left-- > 0)) ids.push(idAt(all[n]!.ids, slot))
      }
    }
    return ids
  })

  /** How many signs of each vector differ, counted in `counts`. Cleared slots are farther than any. */
  const distancesOf = ({ cleared, codes, ids }: Block, signs: Uint32Array, counts: Uint32Array) => {
    const of = new Uint16Array(ids.length / 16)
    for (let slot = 0; slot < of.length; slot++) {
      if (cleared && isCleared(ids, slot)) of[slot] = 0xffff
      else counts[(of[slot] = distance(signs, codes, slot * words))]!++
    }
    return of
  }

  return { blocksOf, nearest }
}

const blockOf = (version: number, given: Uint8Array, codes: Uint8Array): Block => {
  // Copies: typed arrays need an aligned offset, and the rest of the network buffer can go.
  const ids = Buffer.from(given)
  let cleared = false
  for (let slot = 0; slot < ids.length / 16; slot++) cleared ||= isCleared(ids, slot)
  return { version, ids, codes: new Uint32Array(Uint8Array.from(codes).buffer), cleared }
}

/** The first six bytes of a UUID of version 7 are its time. */
const isCleared = (ids: Buffer, slot: number) =>
  ids.readUInt32BE(slot * 16) === 0 && ids.readUInt32BE(slot * 16 + 4) === 0

const idAt = (ids: Buffer, slot: number) =>
  ids.toString("hex", slot * 16, slot * 16 + 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
