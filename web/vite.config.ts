import { defineConfig } from "vitest/config";

// Nothing is inlined: the daemon's content security policy allows no script, style or font but its own files.
export default defineConfig({
  base: "/",
  test: { testTimeout: 60_000 }, // a busy machine
  build: {
    outDir: "../rest/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.txt" },
    reportCompressedSize: false,
    target: "es2022",
    rolldownOptions: { input: ["index.html", "terminal.html"] },
  },
});
