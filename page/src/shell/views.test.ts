import assert from "node:assert/strict";
import { test } from "node:test";
import { words } from "../pod/story";
import { lanes, latencies, wakers, wakeText } from "../queue/view";
import { shortened } from "../workbench/view";

test("pods wait in lanes by place and by why they were refused, those that are tried first in front", () => {
  const found = lanes([
    { pod: "ns/gated", place: "unschedulable", gatedBy: "SchedulingGates", rejectedBy: ["SchedulingGates"] },
    { pod: "ns/a", place: "unschedulable", rejectedBy: ["NodeAffinity", "NodeResourcesFit"] },
    { pod: "ns/b", place: "backoff" },
    { pod: "ns/c", place: "active" },
    { pod: "ns/d", place: "unschedulable", rejectedBy: ["NodeAffinity", "NodeResourcesFit"] },
    { pod: "ns/e" },
    { pod: "ns/f", place: "unschedulable", rejectedBy: ["NodeResourcesFit"], reason: "Insufficient cpu" },
    { pod: "ns/g", place: "unschedulable", rejectedBy: ["NodeResourcesFit"], reason: "Too many pods" },
  ]);
  assert.deepEqual(
    [...found].map(([lane, pods]) => [lane, pods.map((pod) => pod.pod)]),
    [
      ["active", ["ns/c"]],
      ["backoff", ["ns/b"]],
      ["unschedulable: Insufficient cpu", ["ns/f"]],
      ["unschedulable: NodeAffinity, NodeResourcesFit", ["ns/a", "ns/d"]],
      ["unschedulable: Too many pods", ["ns/g"]],
      ["gated by SchedulingGates", ["ns/gated"]],
      ["waiting", ["ns/e"]],
    ],
  );
});

test("latencies are of all decisions, in whatever order they come", () => {
  const decision = (milliseconds: number) => ({ time: "", pod: "ns/a", uid: "", schedulerName: "", milliseconds });
  assert.equal(latencies([]), "No decisions yet.");
  assert.equal(latencies([9, 1, 2].map(decision)), "3 decisions: p50 2.0 ms, p99 9.0 ms");
});

test("a step of a story says what happened and why", () => {
  assert.equal(words({ time: "", what: "active", cause: "NodeAdd", detail: "node-7" }), "active: NodeAdd (node-7)");
  assert.equal(
    words({ time: "", what: "decided", attempt: 2, milliseconds: 1.25, node: "a" }),
    "attempt 2 (1.3 ms): selected a",
  );
  assert.equal(
    words({
      time: "",
      what: "decided",
      attempt: 1,
      milliseconds: 2,
      message: "0/3 nodes",
      refused: { NodeName: 3 },
      nominatedNode: "b",
      victims: ["ns/x"],
      victimsTotal: 12,
    }),
    "attempt 1 (2.0 ms): no node. 0/3 nodes; refused by NodeName (3); nominated to b, evicting 12",
  );
});

test("the same reason on a different number of nodes is one reason", () => {
  const found = shortened({
    "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/3 nodes are available": 2,
    "0/4 nodes are available: 3 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate": 1,
  });
  assert.deepEqual([...found], [["Insufficient cpu, node(s) were unschedulable.", 3]]);
});

test("the last event that requeued a pod is shown", () => {
  const wake = (time: string, event: string, by: string, ...pods: string[]) => ({
    time,
    event,
    by,
    count: pods.length,
    pods,
  });
  const found = wakers([
    wake("2", "NodeAdd", "Node n1", "ns/a"),
    wake("1", "AssignedPodDelete", "Pod ns/x", "ns/a", "ns/b"),
  ]);
  assert.equal(wakeText(found.get("ns/a")!), "requeued by Node n1 (node add)");
  assert.equal(wakeText(found.get("ns/b")!), "requeued by Pod ns/x (assigned pod delete)");
  assert.equal(
    wakeText({ time: "", event: "UnschedulableTimeout", count: 1, pods: [] }),
    "requeued: unschedulable timeout",
  );
});
