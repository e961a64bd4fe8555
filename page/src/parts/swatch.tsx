/** A colour of the plan beside its name, with its pattern. */
import type { Paint } from "../plan/colours";

const STRIPES = "repeating-linear-gradient(135deg, transparent 0 2.5px, #ffffffa6 2.5px 4px)";
const DOTS = "radial-gradient(circle at 3px 3px, #ffffffa6 1.3px, transparent 1.5px) 0 0/6px 6px";

export function paintStyle(paint: Paint): Record<string, string> {
  const over = paint.pattern === "stripes" ? `${STRIPES}, ` : paint.pattern === "dots" ? `${DOTS}, ` : "";
  return {
    "--light": paint.light,
    "--dark": paint.dark,
    background: `${over}linear-gradient(var(--paint), var(--paint))`,
  };
}

export function Swatch({ paint }: { paint: Paint }) {
  return <span class="swatch painted" style={paintStyle(paint)} aria-hidden="true" />;
}
