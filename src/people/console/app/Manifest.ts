/** What makes the console an app that a person may add to the home screen (W3C Web Application Manifest). */

export const manifest = JSON.stringify({
  id: "/console",
  name: "Bridge Service",
  short_name: "Bridge",
  start_url: "/console",
  scope: "/console",
  display: "standalone",
  background_color: "#f4f4f1",
  theme_color: "#175ddc",
  icons: [
    { src: "/console/icon.svg", sizes: "any", type: "image/svg+xml", purpose: "any" },
    { src: "/console/icon.png", sizes: "192x192", type: "image/png", purpose: "any" },
    { src: "/console/icon.png", sizes: "192x192", type: "image/png", purpose: "maskable" }
  ]
})
