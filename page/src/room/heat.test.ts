import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeItem, PodItem } from "../plan/model";
import { PlanModel } from "../plan/model";
import { partsOf } from "./heat";
import { MOST, Trend } from "./trend";

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
  const [part] = partsOf(plan, new Map([["", ["a", "b", "c", "d"]]]), "gpu");
  assert.deepEqual([part!.whole, part!.requested, part!.free, part!.without], [24, 3, 5, ["d"]]);
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
  const [part] = partsOf(plan, new Map([["", ["a", "b"]]]), "gpu.example.com");
  assert.deepEqual([part!.whole, part!.requested, part!.free, part!.without], [8, 3, 3, ["b"]]);
});

test("the trend thins out instead of growing, and keeps its ends", () => {
  const trend = new Trend();
  const shape = { name: "1 gpu", requests: {}, pods: 1, domain: "", seen: 0 };
  const room = { kind: "Room", nodes: 1, fragmentation: { cpu: 0.5 } };
  for (let i = 0; i < 2 * MOST; i++) trend.add({ ...room, shapes: [{ ...shape, fits: i % 2, together: 2 }] }, 1000 * i);
  assert(trend.moments <= MOST);
  const [cpu, gpu] = trend.chart().layers;
  assert.deepEqual([cpu!.name, cpu!.y![0], gpu!.name, gpu!.y![0]], ["cpu, typical pods", 0.5, "1 gpu", 1]);
  assert.deepEqual([gpu!.x![0], gpu!.x!.at(-1)], [0, 2 * MOST - 1]);
});
