// Bundles each src/**/*.test.ts and runs it with node's test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), "stowplan-page-"));
const entryPoints = find(join(here, "src"));
try {
  await build({
    absWorkingDir: here,
    entryPoints,
    bundle: true,
    platform: "node",
    format: "esm",
    outdir: out,
    outExtension: { ".js": ".mjs" },
    jsx: "automatic",
    jsxImportSource: "preact",
    outbase: "src",
  });
  const built = entryPoints.map((path) =>
    join(out, path.slice(join(here, "src").length + 1).replace(/\.tsx?$/, ".mjs")),
  );
  process.exitCode = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}

function find(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => /\.test\.tsx?$/.test(name))
    .map((name) => join(folder, name));
}
