/** Scales of a chart's axes: round steps for numbers, steps that people count in for times. */
import { span } from "../parts/format";

export interface Scale {
  at: (value: number) => number;
  value: (at: number) => number;
  ticks: number[];
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const SPANS = [
  ...[1, 2, 5, 10, 15, 30].flatMap((one) => [one, one * MINUTE]),
  ...[1, 2, 3, 6, 12].map((one) => one * HOUR),
  ...[1, 2, 7].map((one) => one * DAY),
].sort((one, other) => one - other);

/** The distance of at most `most` ticks. */
export function stepOf(unit: string, range: number, most: number): number {
  const rough = range / most;
  if (rough <= 0) return 1;
  if (unit === "seconds" && rough > 1)
    return SPANS.find((one) => one >= rough) ?? 7 * DAY * Math.ceil(rough / (7 * DAY));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough * (1 - 1e-9))!;
  return unit === "count" ? Math.max(1, step) : step;
}

/** From `start` to `end` on the screen; `whole`: the ends are ticks. */
export function scaleOf(
  unit: string,
  [low, high]: [number, number],
  [start, end]: [number, number],
  most: number,
  whole: boolean,
): Scale {
  const step = stepOf(unit, high - low || Math.abs(high) || 1, most);
  const first = whole ? step * Math.floor(low / step + 1e-9) : low;
  const last = Math.max(whole ? step * Math.ceil(high / step - 1e-9) : high, first + (high > low ? 0 : step));
  const perUnit = (end - start) / (last - first);
  const begin = Math.ceil(first / step - 1e-9);
  const ticks = Array.from({ length: Math.floor(last / step + 1e-9) - begin + 1 }, (_, i) => (begin + i) * step);
  return {
    at: (value) => Math.round(10 * (start + (value - first) * perUnit)) / 10,
    value: (at) => first + (at - start) / perUnit,
    ticks,
  };
}

/** Of ratios, seconds and numbers. */
export function valueText(unit: string, value: number): string {
  if (unit === "ratio") return `${(100 * value).toFixed(1)} %`;
  if (unit === "seconds") return value < 10 ? `${Math.round(10 * value) / 10}s` : span(value);
  return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : 1 });
}

/** As short as possible: there is little room beside a chart on a phone. */
export function tickText(unit: string, value: number): string {
  if (unit === "ratio") return `${Number((100 * value).toPrecision(4))} %`;
  return unit === "seconds" && value ? valueText(unit, value) : Number(value.toPrecision(6)).toLocaleString("en");
}
