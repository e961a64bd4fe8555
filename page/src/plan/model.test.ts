import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodesRecord, PodsRecord } from "../protocol";
import { isBroken, PlanModel, stemOf } from "./model";

const NO_NODES: NodesRecord = {
  name: [],
  labels: [],
  taints: [],
  allocatable: [],
  unschedulable: [],
  labelSets: [],
  taintSets: [],
  amountSets: [],
};

function nodes(...names: string[]): NodesRecord {
  const none = names.map(() => 0);
  return {
    name: names,
    labels: none,
    taints: none,
    allocatable: none,
    unschedulable: names.map(() => false),
    labelSets: [{}],
    taintSets: [[]],
    amountSets: [{ cpu: 4000 }],
  };
}

/** Pods by key, each with its node. */
function pods(rows: Record<string, string>): PodsRecord {
  const keys = Object.keys(rows);
  const none = keys.map(() => 0);
  const nodeNames = ["", ...new Set(Object.values(rows))];
  return {
    key: keys,
    node: keys.map((key) => nodeNames.indexOf(rows[key]!)),
    nominatedNode: none,
    workload: none,
    labels: none,
    requests: none,
    priority: none,
    created: none,
    terminating: [],
    times: ["2026-11-24T01:00:00Z"],
    nodeNames,
    workloads: [""],
    labelSets: [{}],
    amountSets: [{ cpu: 100 }],
  };
}

function started(): PlanModel {
  const model = new PlanModel();
  model.apply({ kind: "snapshot", version: 7, nodes: nodes("a", "b"), pods: pods({ "x/p": "", "x/q": "a" }) });
  return model;
}

test("a snapshot replaces everything", () => {
  const model = started();
  model.apply({ kind: "snapshot", version: 9, nodes: nodes("c"), pods: pods({ "y/r": "c" }) });
  assert.deepEqual([...model.nodes.keys()], ["c"]);
  assert.deepEqual([...model.pods.keys()], ["y/r"]);
  assert.equal(model.podsOn("a").length, 0);
  assert.equal(model.pending.size, 0);
});

test("a delta moves, adds and removes, and says what it did", () => {
  const model = started();
  const heard: unknown[] = [];
  model.subscribe((change) => heard.push(change.pods.map(({ before, after }) => [before?.node, after?.node])));
  const ok = model.apply({
    kind: "delta",
    version: 8,
    since: 7,
    nodes: nodes("c"),
    pods: pods({ "x/p": "b" }),
    goneNodes: ["a"],
    gonePods: ["x/q"],
  });
  assert.ok(ok);
  assert.deepEqual(heard, [
    [
      ["a", undefined],
      ["", "b"],
    ],
  ]);
  assert.deepEqual([...model.nodes.keys()], ["b", "c"]);
  assert.deepEqual(
    [...model.podsOn("b")].map((pod) => pod.key),
    ["x/p"],
  );
  assert.equal(model.pending.size, 0);
  assert.equal(model.podsOn("a").length, 0);
});

test("a delta of another version is refused and changes nothing", () => {
  const model = started();
  const ok = model.apply({
    kind: "delta",
    version: 10,
    since: 9,
    nodes: NO_NODES,
    pods: pods({}),
    goneNodes: ["a"],
    gonePods: [],
  });
  assert.equal(ok, false);
  assert.equal(model.nodes.size, 2);
  assert.equal(model.version, 7);
});

test("a copy changes on its own", () => {
  const model = started();
  const copy = model.copy();
  copy.change({ nodes: NO_NODES, pods: pods({ "x/p": "a" }), goneNodes: [], gonePods: [] });
  assert.equal(model.pending.size, 1);
  assert.equal(copy.pending.size, 0);
  assert.equal(copy.podsOn("a").length, 2);
});

test("no string is taken for a property of objects", () => {
  const model = new PlanModel();
  model.apply({
    kind: "snapshot",
    version: 1,
    nodes: nodes("__proto__"),
    pods: pods({ "x/constructor": "__proto__" }),
  });
  assert.equal(model.podsOn("__proto__").length, 1);
  assert.equal(model.podsOn("constructor").length, 0);
});

test("parts of a snapshot name its nodes by their positions, and others by name", () => {
  const model = new PlanModel();
  model.apply({ kind: "snapshot", version: 4, nodes: nodes("a", "b"), pods: pods({}), more: true });
  const block = { ...pods({ "x/p": "", "x/q": "", "x/r": "", "x/s": "" }), node: [2, 0, 3, 2], nodeNames: ["gone"] };
  model.apply({ kind: "part", version: 4, pods: block, more: false });
  assert.deepEqual(
    ["x/p", "x/q", "x/r", "x/s"].map((key) => model.pods.get(key)!.node),
    ["b", "", "gone", "b"],
  );
  assert.deepEqual(
    ["a", "b", "gone"].map((node) => model.podsOn(node).length),
    [0, 2, 1],
  );
  assert.equal(model.pending.size, 1);
  assert.ok(
    model.apply({
      kind: "delta",
      version: 5,
      since: 4,
      nodes: NO_NODES,
      pods: pods({ "x/q": "b" }),
      goneNodes: [],
      gonePods: ["x/p"],
    }),
  );
  assert.deepEqual(
    model
      .podsOn("b")
      .map((pod) => pod.key)
      .sort(),
    ["x/q", "x/s"],
  );
});

test("a snapshot in parts is whole once the last has come", () => {
  const model = new PlanModel();
  const heard: boolean[] = [];
  model.subscribe((change) => heard.push(change.whole && model.loading));
  model.apply({ kind: "snapshot", version: 4, nodes: nodes("a"), pods: pods({}), more: true });
  assert.ok(model.loading);
  model.apply({ kind: "part", version: 4, pods: pods({ "x/p": "a" }), more: true });
  model.apply({ kind: "part", version: 4, pods: pods({ "x/q": "a" }), more: false });
  assert.equal(model.podsOn("a").length, 2);
  // Not with each part: to draw everything takes longer than to read one.
  assert.deepEqual(heard, [true, false]);
  assert.ok(
    model.apply({
      kind: "delta",
      version: 5,
      since: 4,
      nodes: NO_NODES,
      pods: pods({}),
      goneNodes: [],
      gonePods: ["x/p"],
    }),
  );
  assert.equal(model.podsOn("a").length, 1);
});

test("a Deployment's pods keep their name through a rollout, and pods without a controller that of their kind", () => {
  const model = new PlanModel();
  const rows = { "x/web-1-a": "a", "x/web-2-b": "a", "x/train-1": "a", "x/train-2-0": "" };
  const block = {
    ...pods(rows),
    workload: [0, 1, 2, 2],
    labels: [0, 1, 2, 2],
    workloads: ["ReplicaSet/web-1", "ReplicaSet/web-2", ""],
    labelSets: [{ "pod-template-hash": "1" }, { "pod-template-hash": "2" }, {}],
    podGroup: [0, 0, 0, 1],
    podGroups: ["", "x/gang"],
  };
  model.apply({ kind: "snapshot", version: 1, nodes: nodes("a"), pods: block });
  const found = [...model.pods.values()];
  assert.deepEqual(
    found.map(({ family }) => family),
    ["x/Deployment/web", "x/Deployment/web", "x/train", "x/train"],
  );
  assert.deepEqual(
    found.map(({ group }) => group),
    ["", "", "", "x/gang"],
  );
  assert.equal(stemOf("notebook"), "notebook");
});

test("devices are like resources of nodes and pods, also of those that change", () => {
  const model = started();
  const driver = "gpu.example.com";
  const counts = { driver, devices: 4, held: 1, unusable: 1 };
  model.takeDevices({ kind: "Devices", nodes: { a: [counts] }, pods: { "x/q": { [driver]: 1 } } });
  assert.deepEqual(model.nodes.get("a")!.allocatable, { cpu: 4000, [driver]: 4 });
  assert.deepEqual(model.nodes.get("a")!.freeDevices, { [driver]: 2 });
  const changed = { nodes: nodes(), pods: pods({ "x/q": "a" }), goneNodes: [], gonePods: [] };
  model.apply({ kind: "delta", since: 7, version: 8, ...changed });
  assert.deepEqual(model.podsOn("a")[0]!.requests, { cpu: 100, [driver]: 1 });
  model.takeDevices({ kind: "Devices", nodes: { a: [counts] }, pods: {} });
  assert.deepEqual(model.podsOn("a")[0]!.requests, { cpu: 100 });
  model.takeDevices({ kind: "Devices", nodes: {}, pods: {} });
  assert.deepEqual(model.nodes.get("a")!.allocatable, { cpu: 4000 });
});

test("failed nodes are told from tainted ones", () => {
  const [node] = started().nodes.values();
  const tainted = (key: string) => ({ ...node!, taints: [[key, "", "NoSchedule"]] as [string, string, string][] });
  assert.deepEqual(
    [isBroken(tainted("example.com/gpu")), isBroken(tainted("node.kubernetes.io/unreachable"))],
    [false, true],
  );
});
