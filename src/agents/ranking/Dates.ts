/**
 * Dates as lexemes, so that `8 May 2026`, `May 8th` and `2026-05-08` find each other. A text is indexed by every key of its
 * dates (`--05`, `--05-08`, `2026-05`, `2026-05-08`); a query asks only for keys with a year if it names one.
 */

const iso = /\b(\d{4})-(\d\d)(?:-(\d\d))?\b/g

/** Months are also words (`may`, `march`): one counts only beside a day or year, or after a word such as `in` or `last`. */
const dayFirst =
  /\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? (jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?(?:,? (\d{4})\b)?/gi
const monthFirst =
  /\b(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?(?: (\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?|,? (\d{4})\b)/gi
const monthAlone =
  /(?<=\b(?:in|since|until|during|by|early|late|mid|last|this|next) )(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b(?!\.\w)/gi

interface Dated {
  readonly year: string | undefined
  readonly month: string
  readonly day: string | undefined
}

/** The keys of every date in a text, and the text without its dates. */
export const datesOf = (text: string): { readonly keys: ReadonlyArray<string>; readonly rest: string } => {
  const keys: Array<string> = []
  const take = (whole: string, found: Dated) => {
    if (!isDate(found)) return whole
    keys.push(...keysOf(found))
    return " "
  }
  const rest = text
    .replace(iso, (whole, year, month, day) => take(whole, { year, month, day }))
    .replace(dayFirst, (whole, day, name, year) => take(whole, { year, month: numberOf(name), day: padded(day) }))
    .replace(monthFirst, (whole, name, day, year, yearAlone) =>
      take(whole, { year: year ?? yearAlone, month: numberOf(name), day: padded(day) })
    )
    .replace(monthAlone, (whole, name) => take(whole, { year: undefined, month: numberOf(name), day: undefined }))
  return { keys, rest }
}

/** What a query asks for: without the keys of any year, if it names a year. */
export const keysAsked = (keys: ReadonlyArray<string>) => {
  const ofYear = keys.filter((key) => !key.startsWith("--"))
  return [...new Set(ofYear.length > 0 ? ofYear : keys)]
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
const numberOf = (name: string) => padded(String(1 + months.indexOf(name.slice(0, 3).toLowerCase())))!

function padded(number: string): string
function padded(number: string | undefined): string | undefined
function padded(number: string | undefined) {
  return number?.padStart(2, "0")
}

const isDate = ({ day = "01", month }: Dated) =>
  Number(month) >= 1 && Number(month) <= 12 && Number(day) >= 1 && Number(day) <= 31

const keysOf = ({ day, month, year }: Dated) => [
  `--${month}`,
  ...(day === undefined ? [] : [`--${month}-${day}`]),
  ...(year === undefined ? [] : [`${year}-${month}`, ...(day === undefined ? [] : [`${year}-${month}-${day}`])])
]
