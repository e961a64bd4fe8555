/** The room over time, for as long as somebody looks, in bounded memory. */
import type { ChartRecord, RoomRecord } from "../protocol";

/** Moments that are kept: of more, every second one goes. */
export const MOST = 600;

export class Trend {
  #moments: [number, RoomRecord][] = [];

  /** Adds the room at a time in milliseconds. */
  add(room: RoomRecord, at: number): void {
    this.#moments.push([at, room]);
    if (this.#moments.length > MOST) this.#moments = this.#moments.filter((_, i) => i % 2 === 0);
  }

  get moments(): number {
    return this.#moments.length;
  }

  /** The share of what is free that is of no use to pods, by resource and shape; frequent requests come and go. */
  chart(): ChartRecord {
    const [first] = this.#moments;
    const x = this.#moments.map(([at]) => (at - first![0]) / 1000);
    const shares = this.#moments.map(
      ([, room]) =>
        new Map([
          ...Object.entries(room.fragmentation).map(([name, share]): [string, number] => [
            `${name}, typical pods`,
            share,
          ]),
          ...room.shapes
            .filter(({ seen }) => !seen)
            .map(({ name, fits, together }): [string, number] => [name, together ? 1 - fits / together : 0]),
        ]),
    );
    const names = [...new Set(shares.flatMap((one) => [...one.keys()]))];
    return {
      x: { name: "since the view was opened", unit: "seconds" },
      y: { unit: "ratio" },
      layers: names.map((name, colour) => ({
        kind: "step",
        name,
        colour,
        x,
        y: shares.map((one) => one.get(name) ?? 0),
      })),
    };
  }
}
