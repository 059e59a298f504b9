/**
 * Bounds a table into which anybody may bring rows, without a credential: for one network, for one IPv6 site and altogether
 * (decisions.md, Open authorization requests). The oldest rows of those that have the most give way, so that a flood pushes
 * out its own rows first.
 */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"

const mostOfNetwork = 50
const mostOfSite = 8 * mostOfNetwork
const mostOfAll = 20_000
/** Rows of one process after which it looks at all of them. */
const every = 100

interface Crowd {
  readonly table: Statement.Fragment
  readonly key: Statement.Fragment
  /** The column with the network, or with another owner if `site` is null. */
  readonly network: Statement.Fragment
  /** Which rows count. */
  readonly counted: Statement.Fragment
}

export const crowd = (sql: SqlClient.SqlClient, { counted, key, network, table }: Crowd) => {
  /** The keys of what does not fit among `most`. */
  const beyond = (most: number, owner: Statement.Fragment, whose: Statement.Fragment) => sql`
    select ${key}
      from (select ${key}, created_at, row_number() over (partition by ${owner} order by created_at desc) as place
              from ${table}
             where ${counted}
               and ${whose}) as ranked
     order by place, created_at desc
    offset ${most}`

  /** Passes over rows that somebody is just using, or that another statement deletes. */
  const dropped = (keys: Statement.Fragment) => sql`
    with crowded as materialized (
      select ${key}
        from ${table}
       where ${key} in (${keys})
         and ${counted}
         for update skip locked
    )
    delete from ${table}
     where ${key} in (select ${key} from crowded)`

  let opened = 0

  return {
    /** Makes room for one more row. A clause of the statement that inserts it. */
    besides: (owner: string, site: string | null) =>
      dropped(sql`
        (${beyond(mostOfNetwork - 1, network, sql`${network} = ${owner}`)})
         union
        (${beyond(mostOfSite - 1, network, sql`site = ${site}`)})`),
    /** Run after each insert: now and then leaves no more than all together may be. */
    altogether: Effect.suspend(() =>
      opened++ % every === 0 ? Effect.asVoid(dropped(beyond(mostOfAll, sql`site`, sql`site is not null`))) : Effect.void
    )
  }
}
