/** Numbers of the heat map: what nodes have, how much of it is taken, and sums by the value of a label. */
import { amount, percent } from "../parts/format";
import { used } from "../plan/layout";
import { type NodeItem, type PlanModel, takesPods } from "../plan/model";
import type { SourceRecord, UseRecord } from "../protocol";

/** What a heat map is about. */
export interface Measure {
  title: string;
  /** After amounts. */
  name: string;
  /** Whose unit the amounts have in files. */
  resource: string;
  /** Names of what nodes have, of what is taken of it, and of the rest. */
  words: { whole: string; taken: string; free: string };
  whole(node: NodeItem): number;
  taken(node: NodeItem): number;
  free(node: NodeItem): number;
  text(value: number): string;
  /** In a node's cell. */
  cell(cell: Cell): string;
}

export interface Cell {
  node: NodeItem;
  whole: number;
  taken: number;
  free: number;
}

export interface Part {
  name: string;
  cells: Cell[];
  /** Names of nodes that do not have what is measured. */
  without: string[];
  whole: number;
  taken: number;
  free: number;
}

/** What is requested of a resource. Free is what pods can have: nothing of nodes that take none. */
export function requestsOf(plan: PlanModel, resource: string): Measure {
  const whole = (node: NodeItem) => node.allocatable[resource] ?? 0;
  const taken = (node: NodeItem) => used(plan.podsOn(node.name), resource);
  const free = (node: NodeItem) =>
    takesPods(node) ? Math.max(0, node.freeDevices?.[resource] ?? whole(node) - taken(node)) : 0;
  const text = (value: number) => amount(resource, value);
  return {
    title: resource,
    name: resource,
    resource,
    words: { whole: "Allocatable", taken: "Requested", free: "Free" },
    whole,
    taken,
    free,
    text,
    cell: (cell) => (takesPods(cell.node) ? text(cell.free) : "⊘"),
  };
}

/** What is used of a resource, of nodes that are measured. */
export function useOf({ nodes }: UseRecord, resource: string): Measure {
  const taken = (node: NodeItem) => nodes[node.name]?.[resource] ?? 0;
  const whole = (node: NodeItem) => (nodes[node.name] ? (node.allocatable[resource] ?? 0) : 0);
  return {
    title: resource,
    name: resource,
    resource,
    words: { whole: "Allocatable", taken: "Used", free: "Not used" },
    whole,
    taken,
    free: (node) => Math.max(0, whole(node) - taken(node)),
    text: (value) => amount(resource, value),
    cell: (cell) => percent(cell.taken, cell.whole),
  };
}

/** What nodes cost, and what nobody has requested of that: a pod pays for its share of a node, as in simulations. */
export function costOf(plan: PlanModel, prices: SourceRecord["prices"]): Measure {
  const whole = (node: NodeItem) => priceOf(node, prices);
  const taken = (node: NodeItem) => {
    const pods = plan.podsOn(node.name);
    const extended = Object.keys(node.allocatable).filter((name) => name.includes("/") || node.freeDevices?.[name]);
    const priced = extended.length ? extended : ["cpu", "memory"].filter((name) => node.allocatable[name]);
    const shares = priced.map((name) => Math.min(1, used(pods, name) / node.allocatable[name]!));
    return shares.length ? (whole(node) * shares.reduce((sum, share) => sum + share, 0)) / shares.length : 0;
  };
  const text = (value: number) => value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return {
    title: "cost",
    name: "an hour",
    resource: "",
    words: { whole: "Cost of an hour", taken: "Requested", free: "Idle" },
    whole,
    taken,
    free: (node) => whole(node) - taken(node),
    text,
    cell: (cell) => text(cell.free),
  };
}

/** What an hour of all nodes costs, and how much of that is idle. */
export function costsOf(plan: PlanModel, prices: SourceRecord["prices"]): { whole: number; idle: number } {
  const { whole, free } = costOf(plan, prices);
  const sum = (of: (node: NodeItem) => number) => [...plan.nodes.values()].reduce((total, node) => total + of(node), 0);
  return { whole: sum(whole), idle: sum(free) };
}

function priceOf(node: NodeItem, prices: SourceRecord["prices"]): number {
  const ofType = prices[node.labels["node.kubernetes.io/instance-type"] ?? ""];
  return ofType?.[node.labels["karpenter.sh/capacity-type"] ?? ""] ?? ofType?.[""] ?? 0;
}

export function partsOf(plan: PlanModel, groups: ReadonlyMap<string, string[]>, measure: Measure): Part[] {
  return [...groups].map(([name, nodes]) => {
    const part: Part = { name, cells: [], without: [], whole: 0, taken: 0, free: 0 };
    for (const one of nodes) {
      const node = plan.nodes.get(one)!;
      const whole = measure.whole(node);
      if (!whole) {
        part.without.push(one);
        continue;
      }
      const [taken, free] = [measure.taken(node), measure.free(node)];
      part.cells.push({ node, whole, taken, free });
      part.whole += whole;
      part.taken += taken;
      part.free += free;
    }
    return part;
  });
}
