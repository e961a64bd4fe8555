import assert from "node:assert/strict";
import { test } from "node:test";
import type { Changes } from "../plan/model";
import { PlanModel } from "../plan/model";
import type { TimeRecord } from "../protocol";
import { axisOf, isoOf, momentAt } from "./axis";
import { differences } from "./differences";

function record(...time: number[]): TimeRecord {
  return { kind: "Time", timeline: "t", from: "", to: "", marks: [], series: { time, columns: [] } };
}

test("one timeline's frames are the moments, even two of the same time", () => {
  const axis = axisOf([record(100, 100, 101.5)]);
  assert.deepEqual(axis.moments, [0, 0, 1.5]);
  assert.deepEqual(axis.frames, [[0, 1, 2]]);
  assert.equal(isoOf(axis, 2), "1970-01-01T00:01:41.500Z");
});

test("two timelines are in step by what has passed since each began", () => {
  const axis = axisOf([record(100, 102, 104), record(5000, 5001, 5004)]);
  assert.deepEqual(axis.moments, [0, 1, 2, 4]);
  assert.deepEqual(axis.frames, [
    [0, 0, 1, 2],
    [0, 1, 1, 2],
  ]);
  assert.equal(momentAt(axis, isoOf(axis, 2)), 2);
  assert.equal(momentAt(axis, "1970-01-01T00:01:41.900Z"), 1);
  assert.equal(momentAt(axis, "1969-01-01T00:00:00Z"), 0);
});

test("a time is the last moment before it", () => {
  const axis = axisOf([record(10, 20, 30)]);
  const at = (seconds: number) => momentAt(axis, new Date(1000 * seconds).toISOString());
  assert.deepEqual([5, 10, 19.9, 20, 35].map(at), [0, 0, 0, 1, 2]);
});

test("a timeline that ends earlier stays as it was", () => {
  assert.deepEqual(axisOf([record(0, 1), record(0, 1, 5)]).frames[0], [0, 1, 1]);
});

function plan(pods: Record<string, string>): PlanModel {
  const keys = Object.keys(pods);
  const nodeNames = ["", ...new Set(Object.values(pods).filter(Boolean))];
  const zeros = keys.map(() => 0);
  const model = new PlanModel();
  model.change({
    nodes: {
      name: [],
      labels: [],
      taints: [],
      allocatable: [],
      unschedulable: [],
      labelSets: [],
      taintSets: [],
      amountSets: [],
    },
    pods: {
      key: keys,
      node: keys.map((key) => nodeNames.indexOf(pods[key]!)),
      nominatedNode: zeros,
      workload: zeros,
      labels: zeros,
      requests: zeros,
      priority: zeros,
      created: zeros,
      terminating: [],
      times: [""],
      nodeNames,
      workloads: [""],
      labelSets: [{}],
      amountSets: [{}],
    },
    goneNodes: [],
    gonePods: [],
  } satisfies Changes);
  return model;
}

test("pods differ that are elsewhere, pending in one, or there in one only", () => {
  const one = plan({ "ns/same": "a", "ns/moved": "a", "ns/waits": "", "ns/first": "b" });
  const other = plan({ "ns/same": "a", "ns/moved": "b", "ns/waits": "a", "ns/second": "" });
  assert.deepEqual(differences(one, other), [
    { pod: "ns/first", one: "b", other: "does not exist" },
    { pod: "ns/moved", one: "a", other: "b" },
    { pod: "ns/second", one: "does not exist", other: "pending" },
    { pod: "ns/waits", one: "pending", other: "a" },
  ]);
  assert.deepEqual(differences(one, one), []);
});
