/** Numbers of the heat map: what nodes have, what is requested of it, and sums by the value of a label. */
import { used } from "../plan/layout";
import type { NodeItem, PlanModel } from "../plan/model";
import type { DevicesRecord } from "../protocol";

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

const BROKEN = /^node\.kubernetes\.io\/(not-ready|unreachable|out-of-service)$/;

export function takesPods(node: NodeItem): boolean {
  return (
    !node.unschedulable && !node.taints.some(([key, , effect]) => BROKEN.test(key) && effect !== "PreferNoSchedule")
  );
}

/** `devices`: counts of all drivers, if the resource is one of these. */
export function partsOf(
  plan: PlanModel,
  groups: ReadonlyMap<string, string[]>,
  resource: string,
  devices?: DevicesRecord,
): Part[] {
  return [...groups].map(([name, nodes]) => {
    const part: Part = { name, cells: [], without: [], whole: 0, requested: 0, free: 0 };
    for (const one of nodes) {
      const node = plan.nodes.get(one)!;
      const counted = devices?.nodes[one]?.find(({ driver }) => driver === resource);
      const whole = counted?.devices ?? node.allocatable[resource] ?? 0;
      if (!whole) {
        part.without.push(one);
        continue;
      }
      const requested = counted?.held ?? used(plan.podsOn(one), resource);
      const free = takesPods(node) ? Math.max(0, whole - requested - (counted?.unusable ?? 0)) : 0;
      part.cells.push({ node, whole, requested, free });
      part.whole += whole;
      part.requested += requested;
      part.free += free;
    }
    return part;
  });
}
