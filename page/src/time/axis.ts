/** The common axis of timelines: seconds since their start, and the frame of each at every moment. */
import type { TimeRecord } from "../protocol";

/** Maximum number of moments: more cannot be distinguished on the scrubber. */
const MOST = 2000;
/** Times are rounded to 1/ROUNDED seconds. */
const ROUNDED = 1000;

export interface Axis {
  /** Seconds since the start, ascending. */
  moments: number[];
  /** When the first timeline began, in milliseconds since the epoch. */
  start: number;
  /** For each timeline, the index of its frame at every moment. */
  frames: number[][];
}

export function axisOf(records: TimeRecord[]): Axis {
  const own = records.map(({ series: { time } }) =>
    time.map((one) => Math.round(ROUNDED * (one - time[0]!)) / ROUNDED),
  );
  const moments = records.length === 1 ? own[0]! : thinned([...new Set(own.flat())].sort((one, other) => one - other));
  return {
    moments,
    start: 1000 * (records[0]!.series.time[0] ?? 0),
    frames: own.map((times) => framesAt(times, moments)),
  };
}

function thinned(moments: number[]): number[] {
  const step = Math.ceil(moments.length / MOST);
  return step < 2 ? moments : moments.filter((_, i) => i % step === 0 || i === moments.length - 1);
}

function framesAt(times: number[], moments: number[]): number[] {
  let at = 0;
  return moments.map((moment, i) => {
    // In a single timeline every frame is a moment, even if two have the same time.
    if (times === moments) return i;
    while (at + 1 < times.length && times[at + 1]! <= moment) at++;
    return at;
  });
}

/** The last moment at or before a time. */
export function momentAt(axis: Axis, iso: string): number {
  const wanted = (Date.parse(iso) - axis.start) / 1000;
  const found = axis.moments.findIndex((one) => one > wanted + 1e-3);
  return found < 0 ? Math.max(0, axis.moments.length - 1) : Math.max(0, found - 1);
}

export function isoOf(axis: Axis, moment: number): string {
  return new Date(axis.start + 1000 * axis.moments[moment]!).toISOString();
}
