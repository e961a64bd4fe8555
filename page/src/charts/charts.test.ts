import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChartRecord, LayerRecord } from "../protocol";
import { indexAt, plotOf, stacked } from "./plot";
import { scaleOf, stepOf, tickText } from "./scale";

test("ticks are as people count: 1, 2, 5; minutes, hours and days; whole pods", () => {
  assert.equal(stepOf("", 9, 5), 2);
  assert.equal(stepOf("", 0.3, 5), 0.1);
  assert.equal(stepOf("count", 2, 5), 1);
  assert.equal(stepOf("seconds", 3600, 5), 15 * 60);
  assert.equal(stepOf("seconds", 86_400, 8), 3 * 3600);
  assert.equal(stepOf("seconds", 40 * 86_400, 5), 14 * 86_400);
});

test("an axis ends at ticks, if it may, and values are where they belong", () => {
  const scale = scaleOf("", [-0.9, 4.2], [0, 600], 6, true);
  assert.deepEqual(scale.ticks, [-1, 0, 1, 2, 3, 4, 5]);
  assert.equal(scale.at(0), 100);
  assert.equal(scale.value(scale.at(3)), 3);
  assert.deepEqual(scaleOf("seconds", [30, 200], [0, 100], 3, false).ticks, [60, 120, 180]);
  assert.deepEqual(scaleOf("", [0, 0], [0, 100], 5, true).ticks[0], 0);
  assert.equal(tickText("ratio", 0.305), "30.5 %");
});

test("areas stand on each other, and the axis reaches the highest sum", () => {
  const area = (name: string, y: number[]): LayerRecord => ({ kind: "area", name, x: [0, 1], y });
  const layers = [area("a", [1, 2]), area("b", [3, 0])];
  assert.deepEqual(
    stacked(layers).map(({ bottom, top }) => [bottom, top]),
    [
      [
        [0, 0],
        [1, 2],
      ],
      [
        [1, 2],
        [4, 2],
      ],
    ],
  );
  assert.equal(plotOf({ layers }, layers, 500, 200).y.ticks.at(-1), 4);
});

test("differences are read from 0, and a chart without values has axes", () => {
  const chart: ChartRecord = {
    bands: ["A", "B"],
    layers: [{ kind: "dot", x: [0, 5], low: [null, 3], high: [null, 7] }],
  };
  const { x } = plotOf(chart, chart.layers, 600, 200);
  assert.ok(x.ticks.includes(0));
  assert.ok(x.ticks.at(-1)! >= 7);
  assert.ok(plotOf({ layers: [] }, [], 600, 200).y.ticks.length > 1);
});

test("the value at a time is the last one before it", () => {
  assert.deepEqual(
    [-1, 0, 4.9, 5, 99].map((at) => indexAt([0, 5, 10], at)),
    [0, 0, 0, 1, 2],
  );
});
