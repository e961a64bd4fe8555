/** The changes that the workbench requests, as part of the URL. */
import type { PodItem } from "../plan/model";
import type { WhatIfChange } from "../protocol";
import { href } from "../shell/address";

/** Parses the change of a URL; an empty one if it is invalid. */
export function changeOf(text: string | null): WhatIfChange {
  try {
    const found: unknown = JSON.parse(text ?? "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? (found as WhatIfChange) : {};
  } catch {
    return {};
  }
}

export function isEmpty(change: WhatIfChange): boolean {
  return !Object.values(change).some(isSomething);
}

/** Profiles without weights count as empty. */
function isSomething(part: unknown): boolean {
  if (typeof part !== "object" || part === null)
    return typeof part === "string" ? part.trim() !== "" : part !== null && part !== undefined;
  return Array.isArray(part) ? part.length > 0 : Object.values(part).some(isSomething);
}

/** The inverse of `changeOf`; undefined for an empty change. */
export function textOf(change: WhatIfChange): string | undefined {
  const kept = Object.entries(change).filter(([, part]) => isSomething(part));
  return kept.length ? JSON.stringify(Object.fromEntries(kept)) : undefined;
}

export interface Item {
  text: string;
  /** The change without this item. */
  without: () => WhatIfChange;
}

/** The parts of a change as text. */
export function items(change: WhatIfChange): Item[] {
  const found: Item[] = [];
  const list = <K extends "addNodes" | "remove" | "drain" | "label" | "taint" | "scale">(
    key: K,
    words: (one: NonNullable<WhatIfChange[K]>[number]) => string,
  ) =>
    (change[key] ?? []).forEach((one, at) => {
      found.push({
        text: words(one as never),
        without: () => ({ ...change, [key]: (change[key] as unknown[]).filter((_, i) => i !== at) }),
      });
    });
  list("addNodes", (one) => `add ${one.count} like ${one.like}`);
  list("remove", (node) => `remove ${node}`);
  list("drain", (node) => `drain ${node}`);
  list("label", (one) => `label ${one.node} ${one.value === null ? `without ${one.key}` : `${one.key}=${one.value}`}`);
  list(
    "taint",
    (one) =>
      `taint ${one.node} ${one.remove ? `without ${one.key}` : `${one.key}=${one.value ?? ""}:${one.effect ?? "NoSchedule"}`}`,
  );
  if (change.rebalance)
    found.push({ text: `rebalance: ${change.rebalance}`, without: () => ({ ...change, rebalance: "" }) });
  list("scale", (one) => `scale ${one.kind} ${one.namespace}/${one.name} to ${one.replicas}`);
  // A configuration includes its own weights.
  for (const [profile, weights] of change.config ? [] : Object.entries(change.weights ?? {})) {
    for (const [plugin, weight] of Object.entries(weights)) {
      const { [plugin]: _, ...others } = weights;
      found.push({
        text: `set weight of ${plugin} to ${weight}`,
        without: () => ({ ...change, weights: { ...change.weights, [profile]: others } }),
      });
    }
  }
  if (change.manifests?.trim())
    found.push({ text: "apply the manifests", without: () => ({ ...change, manifests: "" }) });
  if (change.config?.trim()) found.push({ text: "use the configuration", without: () => ({ ...change, config: "" }) });
  return found;
}

export interface Workload {
  kind: string;
  namespace: string;
  name: string;
}

/** The URL of the workbench with a change. */
export const trialHref = (change: WhatIfChange) => href("workbench", [], { change: textOf(change) });

/** The workload to scale for a pod: the Deployment, if its ReplicaSet has the pod template hash in its name. */
export function workloadOf(pod: Pick<PodItem, "namespace" | "workload" | "labels">): Workload | undefined {
  const [kind, name] = pod.workload.split("/");
  if (!kind || !name || kind === "DaemonSet" || kind === "Node") return undefined;
  const hash = pod.labels["pod-template-hash"];
  if (kind === "ReplicaSet" && hash && name.endsWith(`-${hash}`))
    return { kind: "Deployment", namespace: pod.namespace, name: name.slice(0, -hash.length - 1) };
  return { kind, namespace: pod.namespace, name };
}
