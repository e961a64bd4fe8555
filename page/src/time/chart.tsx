/** A chart of one figure (utilization, pending pods, waits): a line per timeline, and the current moment. */
import { useMemo } from "preact/hooks";
import { span } from "../parts/format";
import type { Drawn } from "../parts/pictures";
import { SvgPen } from "../plan/pen";
import { isDark } from "../shell/theme";

const WIDTH = 1000;
const HEIGHT = 90;

export interface Figure {
  name: string;
  unit: string;
  /** For each timeline, its values by moment. */
  lines: number[][];
}

interface Props {
  figure: Figure;
  moments: number[];
  at: number;
  onPick: (moment: number) => void;
}

export function Chart({ figure, moments, at, onPick }: Props) {
  const { name, unit, lines } = figure;
  const first = moments[0] ?? 0;
  const whole = Math.max(1e-9, (moments.at(-1) ?? 1) - first);
  const texts = lines.map((values) => valueText(unit, values[at] ?? 0));
  const pick = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    const wanted = first + (whole * (event.clientX - box.left)) / box.width;
    const found = moments.findIndex((one) => one > wanted);
    onPick(Math.max(0, (found < 0 ? moments.length : found) - 1));
  };
  const paths = useMemo(() => lines.map((values) => path(figure, moments, values, WIDTH, HEIGHT)), [figure, moments]);
  const now = round((WIDTH * (moments[at]! - first)) / whole);
  return (
    <figure class="chart">
      <figcaption>
        {name}{" "}
        {texts.map((text, i) => (
          <b key={i} data-line={lines.length > 1 ? i : undefined}>
            {text}
          </b>
        ))}
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${name}: ${texts.join(" and ")} at this moment`}
        onClick={pick}
      >
        {paths.length === 1 && <path d={`${paths[0]}V${HEIGHT}H0Z`} class="area" />}
        {paths.map((drawn, i) => (
          <path key={i} d={drawn} class="line" data-line={i} />
        ))}
        <path d={`M${now} 0V${HEIGHT}`} class="now" />
      </svg>
    </figure>
  );
}

/** A step function: a value holds until the next one. */
function path({ unit, lines }: Figure, moments: number[], values: number[], width: number, height: number): string {
  const first = moments[0] ?? 0;
  const whole = Math.max(1e-9, (moments.at(-1) ?? 1) - first);
  // Not Math.max(...values): a long recording has too many values for arguments.
  const most =
    unit === "ratio" ? 1 : lines.flat().reduce((one, other) => Math.max(one, other), unit === "pods" ? 1 : 0.001);
  const y = (value: number) => round(height - 4 - ((height - 8) * Math.min(value, most)) / most);
  return `${values.map((value, i) => (i ? `H${round((width * (moments[i]! - first)) / whole)}V${y(value)}` : `M0 ${y(value)}`)).join("")}H${width}`;
}

export function valueText(unit: string, value: number): string {
  if (unit === "ratio") return `${(100 * value).toFixed(1)} %`;
  if (unit === "seconds") return value < 10 ? `${Math.round(10 * value) / 10}s` : span(value);
  return value.toLocaleString("en");
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}

// -- as a file ------------------------------------------------------------------------------------------------------

const WIDE = 440;
const HIGH = 96;
const COLUMNS = 2;

/** All figures in one picture. */
export function picture(figures: Figure[], moments: number[], names: string[]): Drawn {
  const style = getComputedStyle(document.documentElement);
  const colour = (variable: string) => style.getPropertyValue(variable).trim();
  const strokes = [colour("--sea"), colour("--signal")];
  const pen = new SvgPen(isDark());
  const width = COLUMNS * (WIDE + 20) + 20;
  const height = 40 + Math.ceil(figures.length / COLUMNS) * (HIGH + 34);
  pen.rect(0, 0, width, height, colour("--paper"));
  names.forEach((name, i) => pen.text(20 + 230 * i, 24, name, 13, strokes[i]!, { bold: true, room: 220 }));
  figures.forEach((figure, i) => {
    const x = 20 + (i % COLUMNS) * (WIDE + 20);
    const y = 40 + Math.floor(i / COLUMNS) * (HIGH + 34);
    const most = figure.unit === "ratio" ? 1 : figure.lines.flat().reduce((one, other) => Math.max(one, other), 0);
    pen.text(x, y + 14, `${figure.name}, up to ${valueText(figure.unit, most)}`, 12, colour("--ink-2"));
    pen.rect(x, y + 20, WIDE, HIGH, colour("--sheet"), 6);
    figure.lines.forEach((values, line) =>
      pen.line(x, y + 20, path(figure, moments, values, WIDE, HIGH), strokes[line]!, line > 0),
    );
  });
  return { svg: pen.svg(width, height, `Figures over time: ${names.join(" and ")}`), width, height };
}
