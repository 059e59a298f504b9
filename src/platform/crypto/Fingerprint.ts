import { sha256 } from "./Sha256.ts"

/** `sha256:` and 64 lowercase hex digits, over the 32 raw bytes of an Ed25519 public key (spec 2.3, 8). */
export const fingerprint = (publicKey: Uint8Array): string => `sha256:${Buffer.from(sha256(publicKey)).toString("hex")}`
