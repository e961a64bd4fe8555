/** A line over time, with the moment that is shown: utilisation, pending pods. */
import { span } from "../parts/format";
import type { TimeRecord } from "../protocol";

const WIDTH = 1000;
const HEIGHT = 90;

interface Props {
  name: string;
  unit: string;
  time: number[];
  values: (number | null)[];
  at: number;
  onPick: (index: number) => void;
}

export function Chart({ name, unit, time, values, at, onPick }: Props) {
  const first = time[0] ?? 0;
  const span = Math.max(1e-9, (time.at(-1) ?? 1) - first);
  const most = unit === "ratio" ? 1 : Math.max(1, ...values.map((value) => value ?? 0));
  const x = (i: number) => (WIDTH * (time[i]! - first)) / span;
  const y = (value: number) => HEIGHT - 4 - ((HEIGHT - 8) * Math.min(value, most)) / most;
  // Steps: a value holds until the next one.
  const path = values.map((value, i) => `${i ? `H${round(x(i))}V` : `M0 `}${round(y(value ?? 0))}`).join("");
  const now = values[at] ?? 0;
  const told = unit === "ratio" ? `${(100 * now).toFixed(1)} %` : unit === "seconds" ? waited(now) : now.toLocaleString("en");
  const pick = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    const wanted = first + (span * (event.clientX - box.left)) / box.width;
    let found = time.findIndex((one) => one > wanted);
    if (found < 0) found = time.length;
    onPick(Math.max(0, found - 1));
  };
  return (
    <figure class="chart">
      <figcaption>
        {name} <b>{told}</b>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${name}: ${told} at this moment`} onClick={pick}>
        <path d={`${path}H${WIDTH}V${HEIGHT}H0Z`} class="area" />
        <path d={`${path}H${WIDTH}`} class="line" />
        <path d={`M${round(x(at))} 0V${HEIGHT}`} class="now" />
      </svg>
    </figure>
  );
}

function waited(seconds: number): string {
  return seconds < 10 ? `${Math.round(10 * seconds) / 10}s` : span(seconds);
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}

/** The last look at or before a time. */
export function indexAt(record: TimeRecord, iso: string): number {
  const wanted = Date.parse(iso) / 1000;
  const found = record.series.time.findIndex((one) => one > wanted + 1e-4);
  return found < 0 ? Math.max(0, record.series.time.length - 1) : Math.max(0, found - 1);
}
