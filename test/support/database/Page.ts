import type { Page } from "../../../src/platform/sql/Page.ts"

export const firstPage: Page = { after: undefined, limit: 1000 }
