/** What `import-memory` reads. */
export const formats = ["markdown", "beads", "basic-memory", "server-memory"] as const
export type Format = (typeof formats)[number]
