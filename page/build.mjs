// Bundles the page into packages/stowplan/src/stowplan/ui/static, or into the folder that is named.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../packages/stowplan/src/stowplan/ui/static");
const LIMIT = 300 * 1024;

mkdirSync(join(out, "assets"), { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { "assets/page": "src/main.tsx", "assets/first": "src/source/first.ts" },
  bundle: true,
  minify: true,
  // A classic script: browsers refuse modules that come from a file, and a static copy opens from one.
  format: "iife",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  charset: "ascii",
  outdir: out,
});
copyFileSync(join(here, "index.html"), join(out, "index.html"));
copyFileSync(join(here, "icon.svg"), join(out, "assets", "icon.svg"));

const size = ["assets/first.js", "assets/page.js", "assets/page.css"].reduce(
  (sum, name) => sum + gzipSync(readFileSync(join(out, name))).length,
  0,
);
console.log(`${(size / 1024).toFixed(1)} KiB compressed`);
if (size > LIMIT) throw new Error(`the page has ${size} bytes compressed, ${LIMIT} are allowed`);
