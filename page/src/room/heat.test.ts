import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeItem, PodItem } from "../plan/model";
import { PlanModel } from "../plan/model";
import { costOf, costsOf, partsOf, requestsOf, useOf } from "./heat";

function node(name: string, gpus: number, more: Partial<NodeItem> = {}): NodeItem {
  return { name, labels: {}, taints: [], allocatable: { cpu: 4000, gpu: gpus }, unschedulable: false, ...more };
}

test("what is free is on nodes that take pods, and nodes without the resource are set apart", () => {
  const plan = new PlanModel();
  const broken: [string, string, string][] = [["node.kubernetes.io/unreachable", "", "NoSchedule"]];
  for (const one of [
    node("a", 8),
    node("b", 8, { unschedulable: true }),
    node("c", 8, { taints: broken }),
    node("d", 0),
  ])
    plan.nodes.set(one.name, one);
  const pod = { requests: { gpu: 3 } } as unknown as PodItem;
  plan.podsOn = (name: string) => (name === "a" ? [pod] : []);
  const [part] = partsOf(plan, new Map([["", ["a", "b", "c", "d"]]]), requestsOf(plan, "gpu"));
  assert.deepEqual([part!.whole, part!.taken, part!.free, part!.without], [24, 3, 5, ["d"]]);
  assert.deepEqual(
    part!.cells.map(({ free }) => free),
    [5, 0, 0],
  );
});

test("devices that are tainted or blocked are not free", () => {
  const plan = new PlanModel();
  for (const one of [node("a", 0), node("b", 0)]) plan.nodes.set(one.name, one);
  plan.podsOn = (name: string) => (name === "a" ? [{ requests: { "gpu.example.com": 3 } } as unknown as PodItem] : []);
  const nodes = { a: [{ driver: "gpu.example.com", devices: 8, held: 3, unusable: 2 }] };
  plan.takeDevices({ kind: "Devices", nodes, pods: {} });
  const [part] = partsOf(plan, new Map([["", ["a", "b"]]]), requestsOf(plan, "gpu.example.com"));
  assert.deepEqual([part!.whole, part!.taken, part!.free, part!.without], [8, 3, 3, ["b"]]);
});

test("a pod pays for its share of GPUs, otherwise of cpu and memory", () => {
  const plan = new PlanModel();
  const typed = (name: string, type: string, more: Partial<NodeItem>) =>
    node(name, 0, {
      labels: { "node.kubernetes.io/instance-type": type, "karpenter.sh/capacity-type": "spot" },
      ...more,
    });
  for (const one of [
    typed("a", "gpu", { allocatable: { cpu: 4000, "x/gpu": 4 } }),
    typed("b", "plain", { allocatable: { cpu: 4000, memory: 8 } }),
    typed("c", "other", {}),
  ])
    plan.nodes.set(one.name, one);
  const pods = { a: { cpu: 4000, "x/gpu": 1 }, b: { cpu: 2000 } } as Record<string, PodItem["requests"]>;
  plan.podsOn = (name: string) => (pods[name] ? [{ requests: pods[name] } as PodItem] : []);
  const prices = { gpu: { "": 8, spot: 2 }, plain: { "": 1 } };
  const [part] = partsOf(plan, new Map([["", ["a", "b", "c"]]]), costOf(plan, prices));
  assert.deepEqual([part!.whole, part!.taken, part!.free, part!.without], [3, 0.75, 2.25, ["c"]]);
  assert.deepEqual(costsOf(plan, prices), { whole: 3, idle: 2.25 });
});

test("measured use is of the nodes that are measured", () => {
  const plan = new PlanModel();
  for (const one of [node("a", 0), node("b", 0)]) plan.nodes.set(one.name, one);
  const measure = useOf({ kind: "Use", nodes: { a: { cpu: 1000 } } }, "cpu");
  const [part] = partsOf(plan, new Map([["", ["a", "b"]]]), measure);
  assert.deepEqual(
    [part!.taken, part!.free, part!.without, measure.cell(part!.cells[0]!)],
    [1000, 3000, ["b"], "25\u00a0%"],
  );
});
