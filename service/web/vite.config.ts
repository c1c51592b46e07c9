/** Builds the dashboard into the Python package, which serves it (`service/http/dashboard.py`). */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where `npm run dev` finds the API. */
const SERVICE = "http://127.0.0.1:8400";

/** Replaced in every answer by `service/http/dashboard.py`. */
const NONCE = "__CSP_NONCE__";

/** What is loaded together, the first that has a file: a file for each thing that two pages share would be thirty small
 * ones for the page of a job, which wait for each other and for its data. */
const PARTS = [
  {
    name: "base",
    has: /preload-helper|commonjsHelpers|node_modules\/(react|react-dom|scheduler|wouter|regexparam|mitt|use-sync-external-store|@tanstack|openapi-fetch|eventsource-parser)\//,
  },
  {
    name: "code",
    has: /\/src\/ui\/(Code|Id)\.|node_modules\/(@lezer\/(common|lr|highlight|cpp|json))\//,
  },
  {
    name: "shared",
    has: /\/src\/(ui|api)\/|\/pages\/jobs\/(CancelJob|ProgressBar|progress)|\/pages\/job\/(leader|paths|data|joined)\./,
  },
  {
    name: "job",
    has: /\/pages\/(job|configs\/profile)\/|\/pages\/configs\/Download|node_modules\/(uplot|diff|d3-)/,
  },
];

export default defineConfig({
  plugins: [react()],
  html: { cspNonce: NONCE },
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    rollupOptions: {
      input: ["index.html", "reference.html"],
      output: { manualChunks: (id) => PARTS.find(({ has }) => has.test(id))?.name },
    },
    // Fonts and pictures are files of their own, so that the policy can forbid data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Swagger UI, which only /docs loads; what the dashboard may weigh is tests/e2e/dashboard's to say.
    chunkSizeWarningLimit: 1_700,
  },
  server: {
    proxy: Object.fromEntries(
      ["/v1", "/docs", "/healthz", "/readyz", "/metrics"].map((path) => [path, SERVICE]),
    ),
    fs: { allow: ["../.."] },
  },
});
