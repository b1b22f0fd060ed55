import { defineConfig } from "vite";

// Nothing is inlined: the daemon's content security policy allows no script, style or font but its own files.
export default defineConfig({
  base: "/",
  build: {
    outDir: "../rest/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    target: "es2022",
    rolldownOptions: { input: ["index.html", "terminal.html"] },
  },
});
