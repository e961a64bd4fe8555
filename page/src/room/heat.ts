/** Numbers of the heat map: what nodes have, what is requested of it, and sums by the value of a label. */
import { used } from "../plan/layout";
import { type NodeItem, type PlanModel, takesPods } from "../plan/model";

export interface Cell {
  node: NodeItem;
  whole: number;
  requested: number;
  /** What pods can have: 0 if the node takes none, and without devices that are tainted or blocked. */
  free: number;
}

export interface Part {
  name: string;
  cells: Cell[];
  /** Names of nodes that do not have the resource. */
  without: string[];
  whole: number;
  requested: number;
  free: number;
}

export function partsOf(plan: PlanModel, groups: ReadonlyMap<string, string[]>, resource: string): Part[] {
  return [...groups].map(([name, nodes]) => {
    const part: Part = { name, cells: [], without: [], whole: 0, requested: 0, free: 0 };
    for (const one of nodes) {
      const node = plan.nodes.get(one)!;
      const whole = node.allocatable[resource] ?? 0;
      if (!whole) {
        part.without.push(one);
        continue;
      }
      const requested = used(plan.podsOn(one), resource);
      const free = takesPods(node) ? Math.max(0, node.freeDevices?.[resource] ?? whole - requested) : 0;
      part.cells.push({ node, whole, requested, free });
      part.whole += whole;
      part.requested += requested;
      part.free += free;
    }
    return part;
  });
}
