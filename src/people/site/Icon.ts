/** The icon of the pages, and of the console as an app: a suspension bridge, drawn from one list of strokes as SVG and as PNG. */
import { Effect } from "effect"
import { crc32, deflateSync } from "node:zlib"

/** The accent colour of the pages. */
const ground = [0x17, 0x5d, 0xdc] as const

type Point = readonly [x: number, y: number]
type Stroke = readonly [from: Point, to: Point, width: number]

/** On a square of 512, within the middle circle of four fifths that no platform cuts off. */
const main: ReadonlyArray<Point> = Array.from({ length: 17 }, (_, step) => {
  const x = 186 + (140 / 16) * step
  return [x, 300 - 130 * ((x - 256) / 70) ** 2] as const
})
const strokes: ReadonlyArray<Stroke> = [
  [[100, 330], [412, 330], 28],
  [[186, 160], [186, 382], 28],
  [[326, 160], [326, 382], 28],
  [[186, 170], [104, 316], 14],
  [[326, 170], [408, 316], 14],
  ...main.slice(1).map((point, index): Stroke => [main[index]!, point, 14])
]

export const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 512 512"><rect width="512" height="512" fill="rgb(${ground})"/><g stroke="#fff" stroke-linecap="round">${strokes
  .map(
    ([[x1, y1], [x2, y2], width]) =>
      `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke-width="${width}"/>`
  )
  .join("")}</g></svg>`

function round(number: number): number {
  return Math.round(number * 10) / 10
}

/** How far a point is from the nearest stroke; negative inside. A loop, because an icon asks for thousands of points. */
const distance = (x: number, y: number) => {
  let nearest = Infinity
  if (x < 80 || x > 432 || y < 140 || y > 402) return nearest
  for (const [[x1, y1], [x2, y2], width] of strokes) {
    const dx = x2 - x1
    const dy = y2 - y1
    const along = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy)))
    const far = Math.sqrt((x - x1 - along * dx) ** 2 + (y - y1 - along * dy) ** 2) - width / 2
    if (far < nearest) nearest = far
  }
  return nearest
}

/**
 * PNG (ISO 15948) of `size` pixels, which takes ten milliseconds to draw. A badge is white on nothing: Android shows only where
 * it is opaque.
 */
export const png = (size: number, kind: "icon" | "badge") => Effect.sync(() => draw(size, kind))

const draw = (size: number, kind: "icon" | "badge"): Uint8Array => {
  const scale = size / 512
  const row = 1 + 4 * size
  const pixels = Buffer.alloc(size * row)
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const inside = Math.max(0, Math.min(1, 0.5 - distance((x + 0.5) / scale, (y + 0.5) / scale) * scale))
      const at = y * row + 1 + 4 * x
      const white = Math.round(255 * inside)
      pixels.fill(255, at, at + 4)
      if (kind === "badge") pixels[at + 3] = white
      else
        for (let shade = 0; shade < 3; shade++)
          pixels[at + shade] = ground[shade]! + ((255 - ground[shade]!) * white) / 255
    }
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(size, 0)
  head.writeUInt32BE(size, 4)
  // 8 bits a sample, RGBA.
  head.set([8, 6], 8)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk("IHDR", head),
    chunk("IDAT", deflateSync(pixels)),
    chunk("IEND", Buffer.alloc(0))
  ])
}

const chunk = (type: string, data: Buffer) => {
  const named = Buffer.concat([Buffer.from(type), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([length, named, sum])
}
