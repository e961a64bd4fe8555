/** What is asked for on the workbench: a value that fits into an address. */
import type { PodItem } from "../plan/model";
import type { WhatIfChange } from "../protocol";
import { href } from "../shell/address";

/** The change of an address; an empty one if it makes no sense. */
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

/** Profiles without weights are nothing, too. */
function isSomething(part: unknown): boolean {
  if (typeof part !== "object" || part === null)
    return typeof part === "string" ? part.trim() !== "" : part !== null && part !== undefined;
  return Array.isArray(part) ? part.length > 0 : Object.values(part).some(isSomething);
}

/** As an address has it; nothing for an empty one. */
export function textOf(change: WhatIfChange): string | undefined {
  const kept = Object.entries(change).filter(([, part]) => isSomething(part));
  return kept.length ? JSON.stringify(Object.fromEntries(kept)) : undefined;
}

export interface Item {
  text: string;
  /** The change without it. */
  without: () => WhatIfChange;
}

/** Each part of a change in words. */
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
  list("scale", (one) => `scale ${one.kind} ${one.namespace}/${one.name} to ${one.replicas}`);
  // A configuration has weights of its own.
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

/** The way to a trial of a change. */
export const trialHref = (change: WhatIfChange) => href("workbench", [], { change: textOf(change) });

/** What made a pod, as somebody would scale it: a ReplicaSet with a hash in its name is a Deployment's. */
export function workloadOf(pod: Pick<PodItem, "namespace" | "workload" | "labels">): Workload | undefined {
  const [kind, name] = pod.workload.split("/");
  if (!kind || !name || kind === "DaemonSet" || kind === "Node") return undefined;
  const hash = pod.labels["pod-template-hash"];
  if (kind === "ReplicaSet" && hash && name.endsWith(`-${hash}`))
    return { kind: "Deployment", namespace: pod.namespace, name: name.slice(0, -hash.length - 1) };
  return { kind, namespace: pod.namespace, name };
}
