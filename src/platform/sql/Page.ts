/** A page of a list that goes on: the rows after a row, in the list's order. */
export interface Page {
  /** The key of the row before the page; undefined for the first page. */
  readonly after: string | undefined
  readonly limit: number
}
