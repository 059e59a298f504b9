/** The Markdown of agents: which structure is shown, and what stays text. */
import { assert, describe, it } from "vitest"
import { markdownOfPage } from "../../../src/people/console/Markdown.ts"

const markdown = (text: string) => markdownOfPage()(text)
const shown = (text: string) => markdown(text).text.replace(/^<div class="md">(.*)<\/div>$/s, "$1")
const anchor = (href: string, text: string, place: string) =>
  `<a href="${href}" rel="noopener noreferrer nofollow">${text}<span class="host">${place}</span></a>`

describe("the Markdown of agents", () => {
  it("shows paragraphs, lists, quotations, code, tables and emphasis", () => {
    assert.strictEqual(
      shown("One *two* **three** ~~four~~ `five`"),
      "<p>One <em>two</em> <strong>three</strong> <s>four</s> <code>five</code></p>"
    )
    assert.strictEqual(
      shown("- a\n- b\n\n3. c").replaceAll(/\n */g, ""),
      '<ul><li>a</li><li>b</li></ul><ol start="3"><li>c</li></ol>'
    )
    assert.strictEqual(shown("> said"), "<blockquote><p>said</p></blockquote>")
    assert.strictEqual(shown("```js onload=x\na < b\n```"), "<pre><code>a &lt; b\n</code></pre>")
    assert.include(
      shown("|a|b|\n|-|-|\n|1|2|").replaceAll(/\n */g, ""),
      '<tr><th scope="col">a</th><th scope="col">b</th></tr>'
    )
  })

  it("keeps the line breaks of a text", () => {
    assert.strictEqual(shown("PDF or UBL?\nBoth work."), "<p>PDF or UBL?<br />Both work.</p>")
  })

  it("shows a heading as a line of the text, not of the page", () => {
    assert.strictEqual(shown("# Sign in"), '<p class="heading">Sign in</p>')
  })

  it("names the host of a link, which takes nothing of the page along", () => {
    assert.strictEqual(
      shown("[bank.example](https://evil.example/a?b&c)"),
      `<p>${anchor("https://evil.example/a?b&amp;c", "bank.example", "evil.example")}</p>`
    )
    assert.strictEqual(
      shown("<ada@a.example>"),
      `<p>${anchor("mailto:ada@a.example", "ada@a.example", "ada@a.example")}</p>`
    )
    assert.include(shown("[a](https://good.example@evil.example)"), '<span class="host">evil.example</span>')
  })

  it("loads no image: it is a link", () => {
    assert.strictEqual(
      shown("![a plan](https://evil.example/pixel.png)"),
      `<p>${anchor("https://evil.example/pixel.png", "image: a plan", "evil.example")}</p>`
    )
  })

  it("links to the web and to mail only", () => {
    const addresses = [
      "javascript:alert(1)",
      "JaVaScRiPt:alert(1)",
      "javascript&colon;alert(1)",
      "data:text/html,x",
      "vbscript:x",
      "file:///etc/passwd",
      "blob:https://a.example/x",
      "/console/sign-out",
      "//evil.example",
      "#content",
      "?after=x",
      "http://"
    ]
    for (const address of addresses) {
      assert.strictEqual(shown(`[a](${address})`), "<p>a</p>", address)
      assert.strictEqual(shown(`![a](<${address}>)`), "<p>image: a</p>", address)
    }
  })

  it("shows HTML as the text that it is", () => {
    const texts = [
      "<script>alert(1)</script>",
      "<img src=x onerror=alert(1)>",
      '<form action="/console/sign-out"><button>Allow</button></form>',
      "<!-- hidden -->",
      "<a href='javascript:x'>a</a>",
      "</div></main><style>*{display:none}</style>",
      "a\n\n<iframe srcdoc=x>\n\nb"
    ]
    for (const text of texts) {
      assert.notMatch(shown(text), /<(?!\/?p>|br \/>)/, text)
      assert.include(
        shown(text).replaceAll("&#39;", "'"),
        text.split("\n").at(-1)!.replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;").slice(0, 20)
      )
    }
  })

  it("shows a character that reorders or hides text escaped, also one that was written as an entity", () => {
    assert.strictEqual(
      shown("[&#8238;moc.bank](https://evil.example/)"),
      `<p>${anchor("https://evil.example/", "\\u202emoc.bank", "evil.example")}</p>`
    )
    assert.strictEqual(shown("a&#xE0041;&#x2066;b&#12644;c"), "<p>a\\udb40\\udc41\\u2066b\\u3164c</p>")
    for (const text of [
      "a\u202eb",
      "`a\u202eb`",
      "```\na\u202eb\n```",
      "![a\u202eb](https://a.example)",
      "    a\u202eb"
    ]) {
      assert.include(shown(text), "a\\u202eb", text)
    }
    // Too deep for its structure to be shown.
    assert.include(shown(`${"> ".repeat(60)}a\u202eb`), "a\\u202eb")
    // What scripts and emoji need stays.
    for (const text of ["می\u200cخواهم", "👩\u200d💻", "עברית\u200f"]) assert.strictEqual(shown(text), `<p>${text}</p>`)
  })

  it("renders no attribute that an agent chose", () => {
    const text =
      '[a](https://a.example "onmouseover=x"){.bar #id} ![b](https://a.example "title")\n\n``` "x" class=bar\n```\n\n# h {#content}'
    const attributes = [...shown(text).matchAll(/ ([a-z-]+)="([^"]*)"/g)].map(([, name]) => name)
    assert.sameMembers([...new Set(attributes)], ["href", "rel", "class"])
  })

  it("shows a text as it is where its structure would cost too much, and loses nothing", () => {
    const texts = [
      `${"> ".repeat(60)}deep`,
      `${"- ".repeat(60)}deep`,
      `|a${"|a".repeat(500)}\n|-${"|-".repeat(500)}\n${"|\n".repeat(400)}`
    ]
    for (const text of texts) {
      const { text: html } = markdown(text)
      assert.match(html, /^<p class="text">/)
      assert.strictEqual(html.replace(/^<p class="text">(.*)<\/p>$/s, "$1").replaceAll("&gt;", ">"), text)
    }
    assert.include(shown(`${"> ".repeat(10)}deep`), "<p>deep</p>")
  })

  it("shows the texts of a page as they are from the one on that exceeds its budget", () => {
    const costly = {
      characters: "a".repeat(16_384),
      tokens: "a\n\n".repeat(3000),
      addresses: `[a]: https://a.example/${"a".repeat(1000)}\n\n${"[a] ".repeat(20)}`
    }
    for (const [what, text] of Object.entries(costly)) {
      const render = markdownOfPage()
      const isStructured = Array.from({ length: 6 }, () => render(text).text.startsWith('<div class="md">'))
      assert.deepStrictEqual(isStructured, [true, true, true, false, false, false], what)
      assert.strictEqual(render("*a* <b>").text, '<p class="text">*a* &lt;b&gt;</p>', what)
    }
  })

  it("shows the structure of a page with ten receipts of usual length", () => {
    const render = markdownOfPage()
    const body = `# Why\n\n${"The team *decided* it; see `docs/run.md`.\n\n".repeat(100)}`
    const summary = `Changed:\n\n${"- **one** of the files\n".repeat(40)}`
    const receipt = [summary, ...Array<string>(6).fill("Run the `tests` of the queue.")]
    for (const text of [body, ...Array.from({ length: 10 }, () => receipt).flat()]) {
      assert.match(render(text).text, /^<div class="md">/)
    }
  })
})
