/** Where the parts of a chart are: its scales, and the extent of its values. */
import type { ChartRecord, LayerRecord } from "../protocol";
import { type Scale, scaleOf, tickText } from "./scale";

export interface Plot {
  x: Scale;
  y: Scale;
  left: number;
  right: number;
  top: number;
  bottom: number;
  height: number;
  /** The height of a row, if the chart has rows. */
  band: number;
}

export type Range = [number, number];

const RIGHT = 14;
const TOP = 10;
const BELOW = 42;
const LETTER = 7;

export function plotOf(
  chart: ChartRecord,
  layers: readonly LayerRecord[],
  width: number,
  height: number,
  zoom?: Range,
): Plot {
  const rows = chart.bands?.length ?? 0;
  const cells = layers.some(({ kind }) => kind === "cells");
  const band = !rows ? 0 : cells ? Math.max(3, Math.min(16, 320 / rows)) : 44;
  const [top, bottom] = rows ? [TOP, TOP + rows * band] : [chart.y?.name ? 2 * TOP : TOP, height - BELOW];
  const unit = chart.y?.unit ?? "";
  const values = scaleOf(unit, valuesOf(layers), [bottom, top], 5, true);
  const names = rows ? (cells ? chart.bands! : []) : values.ticks.map((tick) => tickText(unit, tick));
  const left = Math.min(width / 4, 12 + LETTER * Math.max(2, ...names.map((name) => name.length)));
  const ends: Range = [left, width - RIGHT];
  const most = Math.max(2, Math.floor((width - left) / 90));
  const overTime = layers.some(({ kind }) => kind !== "dot" && kind !== "bar");
  return {
    x: scaleOf(chart.x?.unit ?? "", zoom ?? extentOf(layers, rows > 0 && !cells), ends, most, !overTime && !zoom),
    y: rows ? scaleOf("", [0, rows], [top, bottom], 2, false) : values,
    left,
    right: width - RIGHT,
    top,
    bottom,
    height: bottom + BELOW,
    band,
  };
}

/** Horizontal bars, and differences, are read from 0. */
function extentOf(layers: readonly LayerRecord[], zero: boolean): Range {
  const all = layers.flatMap(({ x = [], low = [], high = [] }) => [...x, ...low, ...high]);
  return rangeOf(
    all.filter((one): one is number => one !== null),
    zero,
  );
}

/** Lines and areas start at 0, and at most the sum of areas is drawn. */
function valuesOf(layers: readonly LayerRecord[]): Range {
  const lines = layers.filter(({ kind }) => kind !== "area").flatMap(({ y = [] }) => [...y]);
  const areas = stacked(layers).at(-1)?.top ?? [];
  return rangeOf([...lines, ...areas], !layers.some(({ kind }) => kind === "dot"));
}

// Not Math.max(...values): a long recording has too many values for arguments.
function rangeOf(values: readonly number[], zero: boolean): Range {
  let [low, high] = zero ? [0, 0] : [Infinity, -Infinity];
  for (const one of values) {
    if (one < low) low = one;
    if (one > high) high = one;
  }
  return low <= high ? [low, high] : [0, 1];
}

/** Areas on top of each other, the first one at the bottom. */
export function stacked(layers: readonly LayerRecord[]): { layer: LayerRecord; bottom: number[]; top: number[] }[] {
  let below: number[] = [];
  return layers
    .filter(({ kind }) => kind === "area")
    .map((layer) => {
      const { y = [] } = layer;
      const bottom = y.map((_, i) => below[i] ?? 0);
      below = y.map((value, i) => value + bottom[i]!);
      return { layer, bottom, top: below };
    });
}

/** The index of the last value at or before x; of the first one if there is none. */
export function indexAt(x: readonly number[], at: number): number {
  let [low, high] = [0, x.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (x[middle]! <= at) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}
