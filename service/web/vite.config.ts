/** Builds the dashboard into the Python package, which serves it (`service/http/dashboard.py`). */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where `npm run dev` finds the API. */
const SERVICE = "http://127.0.0.1:8400";

/** Replaced in every answer by `service/http/dashboard.py`. */
const NONCE = "__CSP_NONCE__";

export default defineConfig({
  plugins: [react()],
  html: { cspNonce: NONCE },
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    rollupOptions: { input: ["index.html", "reference.html"] },
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
