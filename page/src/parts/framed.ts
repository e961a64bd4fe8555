/** A picture as a file: what a reader has to know about it is above it. */
import type { Paint } from "../plan/colours";
import { SvgPen } from "../plan/pen";
import { isDark } from "../shell/theme";
import type { Drawn } from "./pictures";

export interface Head {
  title: string;
  /** What it shows, when, and how. */
  lines: readonly string[];
  /** `alpha`: of a scale's steps. */
  legend: readonly { name: string; paint: Paint; alpha?: number }[];
}

const MARGIN = 16;
const LINE = 20;
const LETTER = 6.6;

export function framed(
  { title, lines, legend }: Head,
  width: number,
  height: number,
  draw: (pen: SvgPen) => void,
): Drawn {
  const style = getComputedStyle(document.documentElement);
  const [ink, paper] = [style.getPropertyValue("--ink").trim(), style.getPropertyValue("--paper").trim()];
  const keys = placed(legend, width);
  const top = MARGIN + LINE * (1 + lines.length + (keys.at(-1)?.row ?? -1) + 1) + MARGIN / 2;
  const size = { width: width + 2 * MARGIN, height: top + height + MARGIN };
  const pen = new SvgPen(isDark());
  pen.rect(0, 0, size.width, size.height, paper);
  pen.text(MARGIN, MARGIN + 14, title, 15, ink, { bold: true, room: width });
  lines.forEach((line, i) => pen.text(MARGIN, MARGIN + 14 + LINE * (i + 1), line, 12, ink, { room: width }));
  for (const { entry, x, row } of keys) {
    const y = MARGIN + 14 + LINE * (1 + lines.length + row);
    pen.box(MARGIN + x, y - 9, 14, 9, entry.paint, entry.alpha ?? 1);
    pen.text(MARGIN + x + 20, y, entry.name, 12, ink);
  }
  pen.within(MARGIN, top, width, height, () => draw(pen));
  return { svg: pen.svg(size.width, size.height, title), ...size };
}

/** The legend's entries in rows. */
function placed(legend: Head["legend"], width: number) {
  let [x, row] = [0, 0];
  return legend.map((entry) => {
    const needs = 34 + LETTER * entry.name.length;
    if (x && x + needs > width) [x, row] = [0, row + 1];
    x += needs;
    return { entry, x: x - needs, row };
  });
}
