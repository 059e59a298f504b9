/**
 * The ranking of the search, as a part of the pages' script: `/docs/search.json` becomes passages, and a question the best
 * of them.
 *
 * A passage is the beginning of a page, a section, or a row of a table. Words are compared by their stems. A rare word
 * counts more than a common one (BM25), one in a heading more than one in the text, and words that stand together as they
 * were asked more than words apart. A word that is nowhere counts as the beginning or a part of others, or with one typing
 * error. What a word means and what to do count more than a list of everything, and that more than the reasons.
 */
export const ranking = String.raw`
const saysWhy = /\/(security|specification|decisions|proof|changelog|style|architecture|benchmarks|contributing)$/
const lists = /\/(reference|protocol|tools|endpoints|codes)$/
const defines = /\/glossary$/
const words = /[\p{L}\p{N}]+(?:[_.:/-]+[\p{L}\p{N}]+)*/gu

/** Without the endings of plurals, tenses and nouns, so that "rotating", "rotation" and "rotates" are one word. */
const stem = (word) => {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word
  const one = word.replace(/(?:ies|ied)$/, "y").replace(/([^s])s$/, "$1")
  const cut = one.replace(/(?:ing|ed|ion|ment)$/, "")
  const kept = cut.length >= 3 && /[aeiouy]/.test(cut) ? cut : one
  return kept.replace(/(?<=...)e$/, "").replace(/([^aeiou])\1$/, "$1")
}
const small = new Set(
  "a an and are be can do does for from get have how i if in is it its me my of on or should the there this to was what when where which who why will with you your".split(" ").map(stem)
)
/** A name such as task_claim is one word, and each of its parts is another. */
const terms = (word) => {
  const parts = word.split(/[_.:/-]+/)
  return parts.length === 1 ? [stem(word)] : [word, ...parts.map(stem)]
}
const known = new Map()
const termsOf = (text) =>
  [...text.toLowerCase().matchAll(words)].flatMap(([word]) => known.get(word) ?? known.set(word, terms(word)).get(word))
const large = (terms) => terms.filter((term) => !small.has(term))

const passagesOf = (pages) =>
  pages.flatMap(({ about, path, sections, title }) => {
    const worth = saysWhy.test(path) ? 0.5 : lists.test(path) ? 0.75 : defines.test(path) ? 1.2 : 1
    const made = (id, heading, around, text, section = id) => ({
      href: path + (id === "" ? "" : "#" + id), section: path + "#" + section, page: title, heading, around, text,
      isRow: section !== id, weight: section === id ? worth : 0.85 * worth
    })
    return [
      made("", title, "", about),
      ...sections.flatMap(([id, heading, text, rows]) => [
        made(id, heading || title, title, [text, ...rows.flatMap(([, first, rest]) => [first, rest])].join(" ")),
        ...rows.map(([row, first, rest]) => made(row, first, title + " " + heading, rest, id))
      ])
    ]
  })

const fields = [["heading", 5, 0.5], ["around", 1.5, 0.3], ["text", 1, 0.6]]

const indexOf = (pages) => {
  const passages = passagesOf(pages).map((passage) => {
    const terms = Object.fromEntries(fields.map(([field]) => [field, termsOf(passage[field])]))
    return { ...passage, terms, whole: large(terms.heading).join(" "), said: " " + large(terms.text).join(" ") + " " }
  })
  const postings = new Map()
  for (const [field, weight, flat] of fields) {
    const lengths = passages.map(({ terms }) => large(terms[field]).length)
    const mean = lengths.reduce((sum, length) => sum + length, 0) / passages.length || 1
    for (const [at, { terms }] of passages.entries()) {
      const each = weight / (1 - flat + (flat * lengths[at]) / mean)
      for (const term of terms[field]) {
        const found = postings.get(term) ?? postings.set(term, new Map()).get(term)
        found.set(at, (found.get(at) ?? 0) + each)
      }
    }
  }
  return { passages, postings, rarity: (term) => Math.log(1 + passages.length / (postings.get(term)?.size ?? 0.5)) }
}

/** Whether one word becomes the other by one letter more, less or changed, or two letters in the other order. */
const isNear = (one, other) => {
  if (Math.abs(one.length - other.length) > 1) return false
  let from = 0
  while (from < one.length && one[from] === other[from]) from += 1
  const [rest, others] = [one.slice(from), other.slice(from)]
  return (
    rest.slice(1) === others.slice(1) || rest.slice(1) === others || rest === others.slice(1) ||
    (rest[0] === others[1] && rest[1] === others[0] && rest.slice(2) === others.slice(2))
  )
}

/** The terms of the index that a word of the question stands for, with how well. */
const matchesOf = (term, { postings }, isLast) => {
  const found = new Map(postings.has(term) ? [[term, 1]] : [])
  if (found.size > 0 && !(isLast && term.length > 2)) return found
  const known = [...postings.keys()]
  const add = (test, worth) => {
    for (const other of known) if (other !== term && test(other)) found.set(other, (worth * term.length) / other.length)
  }
  if (term.length > 1) add((other) => other.startsWith(term), found.size > 0 ? 0.3 : 0.8)
  if (found.size === 0 && term.length > 3) add((other) => other.includes(term), 0.6)
  if (found.size === 0 && term.length > 3) {
    add((other) => isNear(term, other) || (other.length > 4 && term.startsWith(other)), 0.5)
  }
  return found
}

/** Of one section at most two passages, and not the whole after a row of it: a table does not hide the other pages. */
const find = (index, asked, most = 20) => {
  const { passages, postings, rarity } = index
  const all = termsOf(asked)
  const terms = [...new Set(large(all).length > 0 ? large(all) : all)]
  const hits = new Set()
  const sums = new Map()
  const covered = new Map()
  let whole = 0
  for (const term of terms) {
    const matches = matchesOf(term, index, asked.toLowerCase().endsWith(term))
    const worth = Math.max(...[...matches.keys()].map(rarity), 0) || rarity(term)
    whole += worth
    const best = new Map()
    for (const [other, quality] of matches) {
      hits.add(other)
      for (const [at, weight] of postings.get(other)) {
        best.set(at, Math.max(best.get(at) ?? 0, (quality * weight) / (1.5 + weight)))
      }
    }
    for (const [at, score] of best) {
      sums.set(at, (sums.get(at) ?? 0) + worth * score)
      covered.set(at, [...(covered.get(at) ?? []), worth])
    }
  }
  const pairs = terms.slice(1).map((term, at) => [terms[at], term])
  const together = ({ said, whole }) =>
    pairs.reduce((sum, [one, next]) => {
      const pair = one + " " + next
      const worth = (rarity(one) + rarity(next)) / 2
      return sum + (whole.includes(pair) ? 0.5 * worth : 0) + (said.includes(" " + pair + " ") ? 0.2 * worth : 0)
    }, 0)
  const scored = [...sums].map(([at, sum]) => {
    const passage = passages[at]
    const share = covered.get(at).reduce((one, other) => one + other, 0) / whole
    const exact = passage.whole === terms.join(" ") ? whole / 2 : 0
    return { passage, found: covered.get(at).length, score: passage.weight * share ** 2 * (sum + exact + together(passage)) }
  })
  const seen = new Map()
  const best = scored
    .sort((one, other) => other.score - one.score)
    .filter(({ passage: { isRow, section } }) => {
      const before = seen.get(section) ?? 0
      seen.set(section, before + 1)
      return isRow ? before < 2 : before === 0
    })
  return {
    found: best.slice(0, most).map(({ passage }) => passage),
    isWhole: best.some(({ found }) => found === terms.length),
    isHit: (word) => termsOf(word).some((term) => hits.has(term))
  }
}
`
