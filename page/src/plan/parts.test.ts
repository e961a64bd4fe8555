import assert from "node:assert/strict";
import { test } from "node:test";
import { amount, byName, grouped, sortedNames, span } from "../parts/format";
import { csv } from "../parts/save";
import type { NodesRecord, PodsRecord } from "../protocol";
import { Timeline } from "../time/timeline";
import { changeOf, isEmpty, items, textOf, workloadOf } from "../workbench/change";
import { Colours } from "./colours";
import { drawBay, type Look, type Scene } from "./draw";
import { grouped as byLabel, layout, need, stowed } from "./layout";
import { type NodeItem, PlanModel, type PodItem } from "./model";
import { fitted, SvgPen } from "./pen";
import { parseSelector } from "./selector";

const pod = (name: string, cpu: number): PodItem => ({
  key: `ns/${name}`,
  namespace: "ns",
  name,
  node: "a",
  nominatedNode: "",
  workload: "",
  family: "ns/pods of their own",
  labels: {},
  requests: { cpu },
  priority: 0,
  created: 0,
  terminating: false,
});
const nodeOf = (name: string, zone: string): NodeItem => ({
  name,
  labels: zone ? { zone } : {},
  taints: [],
  allocatable: { cpu: 4000 },
  unschedulable: false,
});

test("selectors are kubectl's", () => {
  const labels = { app: "web", tier: "" };
  const yes = [
    "",
    "app=web",
    "app==web",
    "app!=db",
    "app in (web,db)",
    "app notin (db)",
    "app",
    "!gone",
    "tier=",
    "app=web,!gone",
    "gone!=x",
    "gone notin (x)",
  ];
  const no = ["app=db", "app!=web", "app in (db)", "app notin (web)", "gone", "!app", "app=web,app=db", "gone=x"];
  for (const text of yes) assert.equal((parseSelector(text) as (of: object) => boolean)(labels), true, text);
  for (const text of no) assert.equal((parseSelector(text) as (of: object) => boolean)(labels), false, text);
  for (const text of ["app in (web", "=x", "a b", ",", "!", "app=(x)"])
    assert.equal(typeof parseSelector(text), "string", text);
  assert.equal((parseSelector("toString") as (of: object) => boolean)({}), false);
});

test("amounts are as kubectl shows them", () => {
  assert.equal(amount("cpu", 250), "250m");
  assert.equal(amount("cpu", 4000), "4");
  assert.equal(amount("cpu", 1500), "1.5");
  assert.equal(amount("memory", 8 * 2 ** 30), "8Gi");
  assert.equal(amount("nvidia.com/gpu", 8), "8");
  assert.equal(span(0), "0s");
  assert.equal(span(95), "1m35s");
  assert.equal(span(3 * 86400), "3d");
  assert.deepEqual(["n10", "n2"].sort(byName), ["n2", "n10"]);
});

test("thousands have commas", () => {
  for (const value of [0, 7, 999, 1000, 12345, 1234567, -1000, 0.5, 1234.5])
    assert.equal(grouped(value), value.toLocaleString("en"));
});

test("names sorted by keys are in the order in which they are compared", () => {
  const names = [
    "n10",
    "n2",
    "a.b",
    "a-b",
    "ab",
    "a1",
    "a-1",
    "a-10",
    "a-2",
    "1a",
    "10",
    "9",
    "a",
    "a-1-b",
    "a-1.b",
    "ip-10-0-3-12.ec2.internal",
    "ip-10-0-12-3.ec2.internal",
  ];
  assert.deepEqual(sortedNames(names), [...names].sort(byName));
  assert.deepEqual(sortedNames(["B1", "a", "b_2", "b10"]), ["a", "b_2", "B1", "b10"].sort(byName));
});

test("a cell is no formula, and a comma ends none", () => {
  assert.equal(csv([["=1+1", "a,b", 'say "x"', 3]]), '\'=1+1,"a,b","say ""x""",3\r\n');
});

test("boxes are as large as what they stand for, and overlap nowhere", () => {
  const boxes = stowed([pod("a", 2000), pod("b", 500), pod("c", 500), pod("d", 250)], 4000, "cpu");
  const whole = 100 * 66;
  for (const box of boxes) assert.ok(Math.abs((box.width * box.height) / whole - need(box.pod, "cpu") / 4000) < 1e-9);
  for (const one of boxes) {
    assert.ok(one.x >= -1e-9 && one.y >= -1e-9 && one.x + one.width <= 100 + 1e-9 && one.y + one.height <= 66 + 1e-9);
    for (const other of boxes) {
      if (one === other) continue;
      const apart =
        one.x + one.width <= other.x + 1e-9 ||
        other.x + other.width <= one.x + 1e-9 ||
        one.y + one.height <= other.y + 1e-9 ||
        other.y + other.height <= one.y + 1e-9;
      assert.ok(apart);
    }
  }
});

test("what a node has promised beyond what it has stays within its bay", () => {
  for (const capacity of [0, 1000]) {
    const boxes = stowed(
      Array.from({ length: 40 }, (_, i) => pod(`p${i}`, 100 * (i % 5))),
      capacity,
      "cpu",
    );
    assert.equal(boxes.length, 40);
    assert.ok(Math.min(...boxes.map((box) => box.y)) >= -1e-6);
  }
});

test("holds and bays overlap nowhere, and nodes without the label come last", () => {
  const nodes = Array.from({ length: 57 }, (_, i) => nodeOf(`n${i}`, ["", "x", "y", "z"][i % 4]!));
  const groups = byLabel(nodes, "zone");
  assert.deepEqual([...groups.keys()], ["x", "y", "z", ""]);
  const made = layout(groups, 1.6);
  assert.equal(made.bays.length, 57);
  for (const bay of made.bays) {
    const hold = made.holds[bay.hold]!;
    assert.ok(
      bay.x >= hold.x &&
        bay.y >= hold.y &&
        bay.x + bay.width <= hold.x + hold.width &&
        bay.y + bay.height <= hold.y + hold.height,
    );
  }
  for (const one of made.holds)
    for (const other of made.holds)
      assert.ok(
        one === other ||
          one.x + one.width <= other.x ||
          other.x + other.width <= one.x ||
          one.y + one.height <= other.y ||
          other.y + other.height <= one.y,
      );
  assert.deepEqual(layout(new Map(), 1.6).bays, []);
});

test("a text is cut to its room or left out", () => {
  const width = (text: string) => text.length;
  assert.equal(fitted("node-1", 6, width), "node-1");
  assert.equal(fitted("a-long-name", 6, width), "a-lon…");
  assert.equal(fitted("a-long-name", 2, width), "");
});

test("a change survives its address, part by part", () => {
  const change = { remove: ["a"], addNodes: [{ count: 2, like: "b" }], weights: {}, config: "" };
  assert.deepEqual(changeOf(textOf(change)!), { remove: ["a"], addNodes: [{ count: 2, like: "b" }] });
  assert.deepEqual(
    items(change).map((item) => item.text),
    ["add 2 like b", "remove a"],
  );
  assert.deepEqual(items(change)[1]!.without().remove, []);
  assert.ok(isEmpty({ remove: [], config: " " }));
  for (const text of [null, "", "{", "[]", "3", "null"]) assert.ok(isEmpty(changeOf(text)));
});

test("pods of a Deployment are scaled by it", () => {
  const made = { namespace: "ns", workload: "ReplicaSet/web-6f5d", labels: { "pod-template-hash": "6f5d" } };
  assert.deepEqual(workloadOf(made), { kind: "Deployment", namespace: "ns", name: "web" });
  assert.deepEqual(workloadOf({ ...made, labels: {} }), { kind: "ReplicaSet", namespace: "ns", name: "web-6f5d" });
  assert.equal(workloadOf({ ...made, workload: "" }), undefined);
});

const noNodes: NodesRecord = {
  name: [],
  labels: [],
  taints: [],
  allocatable: [],
  unschedulable: [],
  labelSets: [],
  taintSets: [],
  amountSets: [],
};
const podsAt = (node: string): PodsRecord => ({
  key: ["d/p"],
  node: [1],
  nominatedNode: [0],
  workload: [0],
  labels: [0],
  requests: [0],
  priority: [0],
  created: [0],
  terminating: [],
  times: [""],
  nodeNames: ["", node],
  workloads: [""],
  labelSets: [{}],
  amountSets: [{}],
});

test("devices of a timeline are those of the moment", () => {
  const counts = (held: number) => ({ a: [{ driver: "x", devices: 4, held, unusable: 0 }] });
  const nodes = { ...noNodes, name: ["a"], labels: [0], taints: [0], allocatable: [0], unschedulable: [false] };
  const devices = (held: number) => ({
    kind: "Devices",
    nodes: counts(held),
    pods: { "d/p": held ? { x: held } : {} },
  });
  const frame = { time: "", nodes: noNodes, pods: podsAt("a"), goneNodes: [], gonePods: [] };
  const timeline = new Timeline({
    kind: "Frames",
    timeline: "t",
    devices: devices(0),
    start: {
      kind: "snapshot",
      version: 1,
      nodes: { ...nodes, labelSets: [{}], taintSets: [[]], amountSets: [{}] },
      pods: podsAt("a"),
    },
    frames: [
      { ...frame, devices: devices(2) },
      { ...frame, devices: devices(0) },
    ],
  });
  const seen = (moment: number) => {
    timeline.go(moment);
    const { nodes, pods } = timeline.model;
    return [nodes.get("a")!.freeDevices!.x, nodes.get("a")!.allocatable.x, pods.get("d/p")!.requests.x];
  };
  assert.deepEqual([0, 1, 2, 1, 0].map(seen), [
    [4, 4, undefined],
    [2, 4, 2],
    [4, 4, undefined],
    [2, 4, 2],
    [4, 4, undefined],
  ]);
});

test("a timeline goes on and back", () => {
  const frames = ["a", "b", "c"].map((node) => ({
    time: "",
    nodes: noNodes,
    pods: podsAt(node),
    goneNodes: [],
    gonePods: [],
  }));
  const timeline = new Timeline({
    kind: "Frames",
    timeline: "t",
    start: { kind: "snapshot", version: 1, nodes: noNodes, pods: { ...podsAt(""), key: [] } },
    frames,
  });
  const seen = [2, 0, 3, 1, 99].map((at) => {
    timeline.go(at);
    return timeline.model.pods.get("d/p")?.node;
  });
  assert.deepEqual(seen, ["b", undefined, "c", "a", "c"]);
});

const of = (workload: string, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    ...pod(`${workload}${i}`, 1),
    workload: `Job/${workload}`,
    family: `ns/Job/${workload}`,
  }));
const shades = (colours: Colours) =>
  new Map(colours.legend.map(({ name, paint }) => [name, `${paint.light} ${paint.pattern}`]));

test("the colour of a kind follows from its name, however many pods there are", () => {
  // A page that is still loading keeps nothing, as one that is loaded again.
  const names = [..."abcdefghijkl"];
  const once = shades(
    new Colours(
      "workload",
      names.flatMap((name, i) => of(name, 1 + i)),
      0,
      false,
    ),
  );
  const again = shades(
    new Colours(
      "workload",
      names.reverse().flatMap((name, i) => of(name, 1 + i)),
      0,
      false,
    ),
  );
  assert.deepEqual([...again].sort(), [...once].sort());
  assert.equal(new Set(once.values()).size, names.length);
  assert.equal([...once.values()].filter((shade) => shade.endsWith("plain")).length, 8);
});

test("a kind keeps its colour when others come, in all views", () => {
  const first = shades(
    new Colours(
      "workload",
      [..."klmnop"].flatMap((name) => of(name, 3)),
      0,
    ),
  );
  const later = shades(
    new Colours(
      "workload",
      [..."abcdefghijklmnoqrstuvwxyz"].flatMap((name) => of(name, "kl".includes(name) ? 1 : 9)),
      0,
    ),
  );
  for (const name of "klmno") assert.equal(later.get(`ns/Job/${name}`), first.get(`ns/Job/${name}`), name);
  // 25 kinds: the largest have the 24 colours.
  assert.equal(new Set(later.values()).size, 25);
  assert.equal(later.get("ns/Job/z"), "#a9adb0 plain");
});

test("the legend counts pods as they are now", () => {
  const colours = new Colours("workload", of("a", 3), 0);
  assert.deepEqual([...colours.counts([...of("a", 5)])], [["ns/Job/a", 5]]);
});

test("a bay whose node has nothing of the resource does not look empty", () => {
  const plan = new PlanModel();
  plan.nodes.set("a", nodeOf("a", ""));
  const bay = layout(byLabel(plan.nodes.values(), ""), 1).bays[0]!;
  const drawn = (resource: string) => {
    const pen = new SvgPen(false);
    const scene = { plan, resource, ghosts: new Map(), selectedNode: "" } as unknown as Scene;
    drawBay(pen, bay, { x: 0, y: 0, scale: 1 }, scene, { sheet: "#white", hull: "#hull" } as Look, () => []);
    return pen.svg(100, 100, "t");
  };
  assert.match(drawn("cpu"), /fill="#white"/);
  assert.match(drawn("x/gpu"), /fill="#hull".*no x\/gpu/);
});

test("text on a pattern has an outline in the colour below the pattern, text elsewhere has none", () => {
  const pen = new SvgPen(false);
  pen.text(0, 10, "plain", 11, "#000000");
  pen.text(0, 20, "striped", 11, "#000000", { halo: "#e08a00" });
  const [plain, striped] = pen.svg(10, 30, "t").split("<text").slice(1);
  assert.doesNotMatch(plain!, /stroke/);
  assert.match(striped!, /stroke="#e08a00".*paint-order="stroke"/);
});
