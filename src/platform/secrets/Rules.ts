/**
 * The forms of secrets: what a form begins with, and whether a secret of that form stands there. A rule says yes only to
 * what is certainly a secret: a checksum that holds, or a form that nothing else has with a value that looks random. The
 * examples of documentation have neither.
 *
 * Each rule reads a bounded length from its beginning, so that a search is linear. Beginnings may stand in what others
 * read, so a rule fails fast and never reads twice: (?=(...))\1 takes a run without giving characters back.
 */
import { crc32 } from "node:zlib"
import { digits, kindOf, kinds as tokenKinds } from "../crypto/Tokens.ts"

/** A client id has the form of a token, but is public. */
const { sci: _, ...tokensOfOurs } = tokenKinds

/** What is found, in the words of a refusal. */
export const secretKinds = {
  private_key: "private key",
  github_token: "GitHub token",
  gitlab_token: "GitLab token",
  npm_token: "npm token",
  pypi_token: "PyPI token",
  slack_token: "Slack token",
  stripe_key: "Stripe key",
  webhook_secret: "webhook secret",
  aws_credentials: "pair of AWS credentials",
  openai_key: "OpenAI key",
  anthropic_key: "Anthropic key",
  hugging_face_token: "Hugging Face token",
  google_key: "Google key",
  sendgrid_key: "SendGrid key",
  telegram_token: "Telegram token",
  discord_token: "Discord token",
  live_jwt: "JWT that has not expired",
  connection_password: "connection string with a password",
  ...tokensOfOurs
} as const

export type SecretKind = keyof typeof secretKinds

interface Rule {
  readonly kind: SecretKind
  /**
   * A regular expression that finds where a secret may begin. A beginning that is short also looks ahead: to be judged costs
   * more than to be found.
   */
  readonly begins: string
  /** `at` is the index of the beginning in the text. */
  readonly holds: (text: string, at: number, now: Date | undefined) => boolean
}

/** A sticky expression with the value in its first group. Every quantifier in it has a maximum. */
const form = (source: string, accepts: (value: string, whole: string) => boolean = (value) => isRandom(value)) => {
  const expression = new RegExp(source, "y")
  return (text: string, at: number) => {
    expression.lastIndex = at
    const match = expression.exec(text)
    return match !== null && accepts(match[1] ?? "", match[0])
  }
}

/**
 * A value of such characters, in the first group of its form. It ends before another beginning: however many of these stand
 * in a row, each character is read and judged once.
 */
const upTo = (begins: string, characters: string, length: string) =>
  `(?=((?:(?!${begins})[${characters}]){${length}}))\\1(?!(?!${begins})[${characters}])`

const seen = new Uint8Array(128)

/**
 * Whether characters look drawn at random: many different ones, few runs and sequences. `xxxxxxxx`, `0123456789`,
 * `your-token-here` and `EXAMPLEKEY` do not.
 */
export const isRandom = (given: string): boolean => {
  // The rest of a long one looks the same.
  const value = given.slice(0, 160)
  seen.fill(0)
  let [different, steps] = [0, 0]
  for (let index = 0; index < value.length; index += 1) {
    const code = value.charCodeAt(index)
    const step = index === 0 ? -1 : code - value.charCodeAt(index - 1)
    if (step === 0 || step === 1) steps += 1
    if (seen[code] === 0) different += seen[code] = 1
  }
  if (steps >= value.length / 4 || different < Math.min(16, value.length * 0.4)) return false
  // What takes longest comes last: in a run of beginnings each of them is judged.
  const mixed = /\d/.test(value) || (/[a-z]/.test(value) && /[A-Z]/.test(value))
  return mixed && !/example|your|placeholder|redacted|dummy|sample|x{4}|X{4}|\*{3}|\.{3}/i.test(value)
}

/** GitHub's checksum, which npm uses, too: CRC-32 of the 30 characters before it, as six base62 digits. */
const hasChecksum = (value: string) => value.slice(30) === digits(crc32(value.slice(0, 30)), 6)

/** Judges the whole of a text once, however many beginnings it has. */
const remembered = <A>(judge: (text: string) => A) => {
  let last = { text: "", answer: judge("") }
  return (text: string) => {
    if (last.text !== text) last = { text, answer: judge(text) }
    return last.answer
  }
}

/** Its members are looked for in the text: a parser's exception takes longer than everything else about a beginning. */
const decoded = (part: string) => Buffer.from(part, "base64url").toString()

const jwt = /(eyJ[\w-]{10,1000})\.(eyJ[\w-]{10,8000})\.([\w-]{20,2000})/y

/**
 * PKCS, OpenSSH and OpenPGP in PEM, also with `\n` for line breaks, and with the `+` of a diff or of strings that are joined.
 * The beginning of the key is enough; the shortest, of Ed25519, has 64 characters.
 */
const pem = (text: string, at: number) => {
  const [marker = ""] = /^-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----/.exec(text.slice(at, at + 80)) ?? []
  if (marker === "") return false
  const from = at + marker.length
  const end = text.indexOf("-----", from)
  const body = text
    .slice(from, Math.min(end === -1 ? Infinity : end, at + 2000))
    .replaceAll(/\\[nrt]\+?|(?<=[\s"'`])\+|[\s"'`>|\\]/g, "")
  // Headers such as `Proc-Type: 4,ENCRYPTED` come before the key.
  const [key = ""] = /[A-Za-z0-9+/=]{60,2000}/.exec(body) ?? []
  return isRandom(key)
}

/** Words that stand for a password in documentation, and in databases of a developer's own machine. */
const noPassword =
  /pass(?:word|wd)?|secret|changeme|example|your|user|test|admin|root|postgres|mysql|mongo|redis|guest|token|placeholder|^[$%*]|[<>{}[\]()…]|\*{2}|x{4}|\.{3}/i

/** A variable of a shell behind the beginning of a password. */
const variable = /\$[A-Z_]{2}/

const isPassword = (password: string, user: string) => {
  if (password.length < 8) return false
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^a-zA-Z\d]/].filter((kind) => kind.test(password)).length
  return (
    (kinds >= 3 || (password.length >= 12 && kinds >= 2 && /\d/.test(password))) &&
    password !== user &&
    !variable.test(password) &&
    !noPassword.test(password)
  )
}

const schemes =
  /(?:^|[^a-z\d+.-])(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|sqlserver|clickhouse|cockroachdb|nats|smtps?|ldaps?|s?ftp|https?|git|ssh)(?:\+[a-z\d]{1,12})?$/i
const credentials = /([^\s:@/?#"'`<>]{0,80}):([^\s@/"'`<>]{8,200})@[\w.[-]/y

const connection = /(?:\bhost|server|data source|dbname|database)\s{0,2}=|jdbc:\w{2,15}:|postgres(?:ql)?:\/\//gi
const connections = remembered((text) => Array.from(text.matchAll(connection), ({ index }) => index))
/** Whether a connection is described a few lines before or behind. */
const isNearConnection = (text: string, at: number) => {
  const indexes = connections(text)
  let [low, high] = [0, indexes.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (indexes[middle]! < at - 200) low = middle + 1
    else high = middle
  }
  return (indexes[low] ?? Infinity) < at + 400
}

/** A key of OpenAI has this in its middle; other text has fewer of them than of `sk-`. */
const openAiRest = /T3BlbkFJ(?=([\w-]{16,100}))\1(?![\w-])/y
const openAiKey = (text: string, at: number) => {
  openAiRest.lastIndex = at
  const [rest] = openAiRest.exec(text) ?? []
  if (rest === undefined) return false
  const [, before] = /sk-([\w-]{16,110})$/.exec(text.slice(Math.max(0, at - 113), at)) ?? []
  return before !== undefined && isRandom(before + rest)
}

/** A token of a bot begins with its number. */
const telegramRest = /:(?=(AA[\w-]{33}))\1(?![\w-])/y
const telegramToken = (text: string, at: number) => {
  telegramRest.lastIndex = at
  const [, rest = ""] = telegramRest.exec(text) ?? []
  return isRandom(rest) && /(?<![\w-])(?:bot)?\d{8,12}$/.test(text.slice(Math.max(0, at - 16), at))
}

/** Three digits in base64. A token of Discord begins with the number of its account, of 17 to 20 digits. */
const threeDigits = "[MNO][DTjz][AEIMQUYcgk][w-z0-5]"

/** What `.npmrc` holds for a registry without tokens: a password, or a name and a password, in base64. */
const registry = /:_(?:password|auth)\s{0,2}=\s{0,2}\\{0,3}["']?([A-Za-z0-9+/]{8,300}={0,2})/y
const registryPassword = (text: string, at: number) => {
  registry.lastIndex = at
  const [, given] = registry.exec(text) ?? []
  if (given === undefined) return false
  const [, user = "", password = ""] =
    /^(?:([^:]{0,300}):)?(.{0,300})$/.exec(Buffer.from(given, "base64").toString()) ?? []
  return isPassword(password, user)
}

/** Without `=` but at the end, so that no value has the beginning of another one. */
const named = /\w{3,8}\s{0,2}=\s{0,2}["']?([^\s;&"'=]{6,200}={0,2})/iy

const gitLab = "gl(?:pat|dt|rt|ptt|cbt|ft|soat|imt|oas|agent)-"
const slack = "xox[abeoprs]-"
const anthropic = "sk-ant-"

/** A 40-character AWS secret stands somewhere in a text that has a key id. */
const awsSecret = /(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])/g
const hasAwsSecret = remembered((text) =>
  (text.match(awsSecret) ?? []).some((found) => /[a-z]/.test(found) && /[A-Z]/.test(found) && isRandom(found))
)
const hasKeyType = remembered((text) => /["']kty\\{0,3}["']/.test(text))

const kindOfOurs = Object.keys(tokensOfOurs) as ReadonlyArray<keyof typeof tokensOfOurs>

export const rules: ReadonlyArray<Rule> = [
  { kind: "private_key", begins: "-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY", holds: pem },
  {
    kind: "private_key",
    begins: "AGE-SECRET-KEY-(?:PQ-)?1",
    holds: form("AGE-SECRET-KEY-(?:PQ-)?1([QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{50,4000})", (value) =>
      isRandom(value.slice(0, 58))
    )
  },
  {
    // A JWK with its private part (RFC 7517, RFC 8037), with the quotes of JSON within JSON or of Python, too.
    kind: "private_key",
    begins: `\\\\{0,3}["']d\\\\{0,3}["']\\s{0,3}:`,
    holds: (text, at) => hasKeyType(text) && jwkPart(text, at)
  },
  {
    kind: "github_token",
    begins: "gh[pousr]_(?=[A-Za-z0-9]{36})",
    holds: form("gh[pousr]_([A-Za-z0-9]{36})(?![A-Za-z0-9])", hasChecksum)
  },
  {
    kind: "github_token",
    begins: "github_pat_",
    holds: form("github_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59})(?![A-Za-z0-9])")
  },
  {
    kind: "gitlab_token",
    begins: gitLab,
    holds: form(`${gitLab}${upTo(gitLab, "A-Za-z0-9_-", "20,300")}`)
  },
  {
    kind: "npm_token",
    begins: "npm_(?=[A-Za-z0-9]{36})",
    holds: form("npm_([A-Za-z0-9]{36})(?![A-Za-z0-9])", (value) => hasChecksum(value) || isRandom(value))
  },
  { kind: "npm_token", begins: ":_(?:password|auth)\\s{0,2}=", holds: registryPassword },
  {
    kind: "pypi_token",
    begins: "pypi-Ag",
    holds: form("pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZw)([A-Za-z0-9_-]{50,200})", (value) =>
      isRandom(value.slice(-40))
    )
  },
  {
    kind: "slack_token",
    begins: slack,
    holds: form(`${slack}${upTo(slack, "A-Za-z0-9-", "20,250")}`, (value) => {
      const secret = value.replace(/^(?:\d{1,14}-){0,4}/, "")
      return secret.length >= 20 && isRandom(secret)
    })
  },
  {
    kind: "slack_token",
    begins: "xapp-\\d",
    holds: form("xapp-\\d-[A-Z0-9]{6,14}-\\d{8,15}-([a-f0-9]{60,70})(?![a-f0-9])")
  },
  {
    kind: "slack_token",
    begins: "hooks\\.slack\\.com/(?:services|workflows|triggers)/",
    holds: form("hooks\\.slack\\.com/\\w{1,12}/[A-Z0-9]{8,14}/[A-Z0-9]{8,14}/([A-Za-z0-9]{20,30})(?![A-Za-z0-9])")
  },
  {
    kind: "stripe_key",
    begins: "[sr]k_live_(?=[A-Za-z0-9]{24})",
    holds: form("[sr]k_live_([A-Za-z0-9]{24,250})(?![A-Za-z0-9])")
  },
  {
    kind: "webhook_secret",
    begins: "whsec_(?=[A-Za-z0-9+/]{32})",
    holds: form("whsec_([A-Za-z0-9+/]{32,90}={0,2})(?![A-Za-z0-9+/=])")
  },
  {
    kind: "aws_credentials",
    begins: "A[KS]IA[A-Z2-7]{16}",
    holds: (text, at) => hasAwsSecret(text) && isRandomId(text, at)
  },
  {
    kind: "anthropic_key",
    begins: anthropic,
    holds: form(`${anthropic}[a-z]{2,8}\\d\\d-${upTo(anthropic, "\\w-", "80,130")}`)
  },
  { kind: "openai_key", begins: "T3BlbkFJ", holds: openAiKey },
  {
    kind: "hugging_face_token",
    begins: "hf_(?=[A-Za-z]{34})",
    // Letters only; 34 random ones are of both cases and rarely neighbours.
    holds: form("hf_([A-Za-z]{34})(?![A-Za-z0-9])", (value) => /[a-z]/.test(value) && isRandom(`0${value}`))
  },
  {
    kind: "google_key",
    begins: "(?<![\\w-])AIzaSy(?=[\\w-]{33})",
    // The key in the examples of Google Maps.
    holds: form("AIzaSy((?!DaGmWKa4JsXZ)[\\w-]{33})(?![\\w-])")
  },
  { kind: "google_key", begins: "GOCSPX-(?=[\\w-]{28})", holds: form("GOCSPX-([\\w-]{28})(?![\\w-])") },
  { kind: "sendgrid_key", begins: "SG\\.[\\w-]{22}\\.", holds: form("SG\\.[\\w-]{22}\\.([\\w-]{43})(?![\\w-])") },
  { kind: "telegram_token", begins: ":AA(?=[\\w-]{33})", holds: telegramToken },
  {
    kind: "discord_token",
    begins: `(?<![\\w-])(?:${threeDigits}){5}`,
    // The token in Discord's documentation.
    holds: form(
      `(?!MTk4NjIyNDgzNDcxOTI1MjQ4)(?:${threeDigits}){5,6}[A-Za-z0-9]{0,3}\\.[\\w-]{6}\\.([\\w-]{27,38})(?![\\w-])`
    )
  },
  {
    kind: "discord_token",
    begins: "discord(?:app)?\\.com/api/webhooks/",
    holds: form("discord(?:app)?\\.com/api/webhooks/\\d{17,20}/([\\w-]{60,80})(?![\\w-])")
  },
  {
    kind: "live_jwt",
    begins: "(?<![\\w-])eyJ",
    holds: (text, at, now) => {
      jwt.lastIndex = at
      const [, header, payload = ""] = jwt.exec(text) ?? []
      if (now === undefined || header === undefined || !/"alg"\s{0,9}:/.test(decoded(header))) return false
      const claims = decoded(payload)
      const [, exp = "0"] = /"exp"\s{0,9}:\s{0,9}(\d{1,15})/.exec(claims) ?? []
      // Supabase's local stack has the same keys everywhere.
      return Number(exp) * 1000 > now.getTime() && !/"iss"\s{0,9}:\s{0,9}"supabase-demo"/.test(claims)
    }
  },
  {
    kind: "connection_password",
    begins: "://(?=[^\\s:@/?#\"'`<>]{0,80}:[^\\s@/\"'`<>]{8})",
    holds: (text, at) => {
      if (!schemes.test(text.slice(Math.max(0, at - 30), at))) return false
      credentials.lastIndex = at + 3
      const [, user = "", password = ""] = credentials.exec(text) ?? []
      return isPassword(password, user)
    }
  },
  {
    // `Server=db;User Id=app;Password=...`, `host=db user=app password=...`, `jdbc:mysql://db?user=app&password=...`
    kind: "connection_password",
    begins: "(?:[Pp]assword|PASSWORD|[Pp]wd|PWD)\\s{0,2}=",
    holds: (text, at) => {
      named.lastIndex = at
      const [, password = ""] = named.exec(text) ?? []
      return isPassword(password, "") && isNearConnection(text, at)
    }
  },
  {
    // Of Azure's storage and service bus.
    kind: "connection_password",
    begins: "(?:Account|SharedAccess)Key=",
    // The key of the emulator Azurite is the same everywhere.
    holds: form("\\w{10,15}=([A-Za-z0-9+/]{43}=|(?!Eby8vdM02xNO)[A-Za-z0-9+/]{86}==)(?![A-Za-z0-9+/=])")
  },
  ...kindOfOurs.map((kind) => ({
    kind,
    begins: `${kind}_(?=[0-9A-Za-z]{49})`,
    // The examples of docs/protocol.md are sound tokens of small numbers.
    holds: (text: string, at: number) =>
      kindOf(text.slice(at, at + 53)) === kind && !/^0{42}[1-9]/.test(text.slice(at + 4, at + 47))
  }))
]

const jwkPart = form(`\\\\{0,3}["']d\\\\{0,3}["']\\s{0,3}:\\s{0,3}\\\\{0,3}["']([\\w-]{40,1000})\\\\{0,3}["']`)
const isRandomId = form(
  "A[KS]IA([A-Z2-7]{16})(?![A-Z0-9])",
  (value) => !value.includes("EXAMPLE") && new Set(value).size > 6
)
