/**
 * Words that find each other: the forms of irregular words, which stemming leaves apart, and words that developers use for
 * the same thing. English, because only English is stemmed.
 */

const forms = `
  arise arose arisen; awake awoke awoken; bear bore borne; beat beaten; become became; begin began begun; bend bent; bind bound;
  bite bit bitten; bleed bled; blow blew blown; break broke broken; breed bred; bring brought; build built; burn burnt;
  buy bought; catch caught; choose chose chosen; cling clung; come came; creep crept; deal dealt; dig dug; draw drew drawn;
  dream dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought;
  find found; flee fled; fly flew flown; forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven;
  freeze froze frozen; get got gotten; give gave given; go went gone; grow grew grown; hang hung; hear heard; hide hid hidden;
  hold held; keep kept; kneel knelt; know knew known; lay laid; lead led; leap leapt; learn learnt; leave left; lend lent;
  lie lain; light lit; lose lost; make made; mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose risen;
  run ran; say said; see saw seen; seek sought; sell sold; send sent; sew sewn; shake shook shaken; shine shone; shoot shot;
  show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid; speak spoke spoken;
  speed sped; spend spent; spin spun; spring sprang sprung; stand stood; steal stole stolen; stick stuck; strike struck;
  string strung; swear swore sworn; sweep swept; swell swollen; swim swam swum; swing swung; take took taken; teach taught;
  tear tore torn; tell told; think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn;
  weave wove woven; weep wept; win won; wind wound; withdraw withdrew withdrawn; write wrote written; child children; man men;
  woman women; foot feet; tooth teeth; mouse mice; goose geese; person people; wife wives; life lives; knife knives;
  leaf leaves; shelf shelves; half halves; index indices; matrix matrices; vertex vertices; criterion criteria;
  schema schemata; datum data; analysis analyses`

const synonyms = `
  delete remove drop purge erase; add create insert; change modify edit alter update; fix repair resolve correct;
  bug defect fault flaw; error failure exception; fail break crash abort; crash panic; timeout deadline; slow latency;
  fast quick speed; config configuration setting option parameter; db database postgres postgresql; password credential secret;
  login signin authenticate auth; logout signout; permission privilege access right; user account customer; customer tenant client;
  deploy release ship rollout publish; rollback revert undo; build compile; test check verify; flaky intermittent unstable;
  queue backlog; job task worker; cron schedule nightly; retry repeat; duplicate twice copy; memory ram heap; disk storage volume;
  server host machine node; endpoint route url; request call; response answer reply; limit cap maximum bound quota; throttle limit;
  message notification; alert alarm page; email mail; picture image photo screenshot; folder directory; file document;
  library package dependency module; upgrade bump update; version release; commit revision sha; migrate migration move;
  schema table; column field; lock mutex; race concurrent parallel simultaneous; encrypt cipher; hash digest checksum fingerprint;
  certificate cert tls ssl; token credential key; expire expiry lifetime ttl; log trace; metric measurement; monitor watch;
  dashboard chart graph; choose pick select decide decision; replace swap switch; avoid prevent; allow permit;
  forbid deny refuse reject block; start begin launch boot; stop halt end quit kill terminate; run execute; find search lookup;
  show display render; send deliver; fetch download pull; upload push; store save persist; read load; parse decode;
  serialize encode; convert transform; validate check verify; big large huge; small tiny; price cost amount money;
  payment charge pay; invoice bill; order purchase; stock inventory; timezone utc; locale language translation; mobile phone;
  frontend ui; backend server; env environment; prod production live; docker container; kubernetes k8s cluster; ci pipeline;
  proxy gateway; webhook callback; sync synchronize; async asynchronous; backup snapshot dump; restore recover;
  doc documentation readme; convention style rule guideline; owner responsible; repo repository; freeze hang stuck; wrong incorrect;
  empty blank; missing absent lost; rename name; wait delay sleep; size length; number count; picture icon`

const groupsOf = (list: string) => list.split(";").map((group) => group.trim().split(/\s/))
const groups = { forms: groupsOf(forms), synonyms: groupsOf(synonyms) }

/** All of the words, to be stemmed as the index is. */
export const words = [...new Set(Object.values(groups).flat(2))]

export type Kind = keyof typeof groups
export interface Related {
  readonly lexeme: string
  readonly kind: Kind
}

/** What each lexeme is related to, its forms first. `stems`: the lexemes of `words`. */
export const relatedBy = (stems: ReadonlyMap<string, string>): ReadonlyMap<string, ReadonlyArray<Related>> => {
  const related = new Map<string, Array<Related>>()
  for (const kind of ["forms", "synonyms"] as const) {
    for (const group of groups[kind]) {
      const lexemes = new Set(group.flatMap((word) => stems.get(word) ?? []))
      for (const of of lexemes) {
        const known = related.get(of) ?? []
        const others = [...lexemes].filter((one) => one !== of && known.every(({ lexeme }) => lexeme !== one))
        related.set(of, [...known, ...others.map((lexeme) => ({ lexeme, kind }))])
      }
    }
  }
  return related
}
