/** Pods that are on different nodes in two plans, or exist in only one. */
import { byName } from "../parts/format";
import type { PlanModel, PodItem } from "../plan/model";

export interface Difference {
  pod: string;
  one: string;
  other: string;
}

export const PENDING = "pending";
export const ABSENT = "does not exist";

export function differences(one: PlanModel, other: PlanModel): Difference[] {
  const found: Difference[] = [];
  for (const pod of one.pods.values()) {
    const there = other.pods.get(pod.key);
    if (!there || there.node !== pod.node) found.push({ pod: pod.key, one: place(pod), other: place(there) });
  }
  for (const pod of other.pods.values())
    if (!one.pods.has(pod.key)) found.push({ pod: pod.key, one: ABSENT, other: place(pod) });
  return found.sort((a, b) => byName(a.pod, b.pod));
}

function place(pod: PodItem | undefined): string {
  return pod ? pod.node || PENDING : ABSENT;
}
