/**
 * The cluster as the page has it: nodes and pods by name, brought up to date by the server's messages.
 *
 * A message's rows are columns; here each becomes an object that never changes, and a row that comes again becomes a
 * new one. Whoever keeps something by object can so tell by identity whether it is still true.
 */
import type { DeltaMessage, NodesRecord, PartMessage, PodsRecord, SnapshotMessage } from "../protocol";

export type PlanMessage = SnapshotMessage | PartMessage | DeltaMessage;
/** What a delta changes, without its place in the order. */
export type Changes = Pick<DeltaMessage, "nodes" | "pods" | "goneNodes" | "gonePods">;

export interface NodeItem {
  readonly name: string;
  readonly labels: Record<string, string>;
  /** Key, value and effect. */
  readonly taints: readonly [string, string, string][];
  readonly allocatable: Record<string, number>;
  readonly unschedulable: boolean;
}

export interface PodItem {
  /** namespace/name */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  /** "" while it is pending. */
  readonly node: string;
  readonly nominatedNode: string;
  /** Kind/name of its controller, "" for none. */
  readonly workload: string;
  /** The workload as the page calls it: its namespace is part of it. Pods without one share a name. */
  readonly family: string;
  readonly labels: Record<string, string>;
  readonly requests: Record<string, number>;
  readonly priority: number;
  /** Milliseconds since the epoch, 0 if unknown. */
  readonly created: number;
  readonly terminating: boolean;
}

/** A pod that changed its place: both are there if it moved or was replaced, only one if it came or left. */
export interface PodChange {
  before?: PodItem;
  after?: PodItem;
}

export type Change = WholeChange | SomeChange;

/** Every pod may be different, and perhaps every node. */
export interface WholeChange {
  whole: true;
  nodes: boolean;
}

export interface SomeChange {
  whole: false;
  nodes: Set<string>;
  pods: PodChange[];
}

const WHOLE: { names: readonly string[]; lists: PodItem[][] } = { names: [], lists: [] };
const NO_PODS: readonly PodItem[] = [];
/** Milliseconds between two looks at a plan that comes in parts: on a slow line it is seen to fill. */
const FILLING = 2000;

export class PlanModel {
  version = 0;
  /** Whether pods of a snapshot are still to come. */
  loading = false;
  #notified = 0;
  /** What the parts of a snapshot know of its nodes: the names at their positions, and the pods that are there. */
  #parts = WHOLE;
  readonly nodes = new Map<string, NodeItem>();
  readonly pods = new Map<string, PodItem>();
  /** As arrays: a node has a hundred pods at most, and thousands of sets take longer to make than to search. */
  readonly #onNode = new Map<string, PodItem[]>();
  readonly #pending = new Set<PodItem>();
  readonly #listeners = new Set<(change: Change) => void>();

  /** The pods on a node, in no order. A node that is not there can have some. */
  podsOn(node: string): readonly PodItem[] {
    return this.#onNode.get(node) ?? NO_PODS;
  }

  /** The pods that no node has. */
  get pending(): ReadonlySet<PodItem> {
    return this.#pending;
  }

  /** Calls back after each change until the returned function is called. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** False if the message is a delta to another version than this one: a snapshot is needed. */
  apply(message: PlanMessage): boolean {
    if (message.kind !== "delta") {
      const first = message.kind === "snapshot";
      if (first) {
        this.#clear();
        for (const node of nodeItems(message.nodes)) this.nodes.set(node.name, node);
        this.#fill(message.pods);
        this.#parts = { names: ["", ...message.nodes.name], lists: [] };
      } else this.#fill(message.pods, this.#parts);
      this.version = message.version;
      this.loading = message.more ?? false;
      if (!this.loading) this.#parts = WHOLE;
      if (first || !this.loading || performance.now() - this.#notified > FILLING) {
        this.#notified = performance.now();
        this.#tell({ whole: true, nodes: first });
      }
      return true;
    }
    if (message.since !== this.version) return false;
    this.version = message.version;
    this.change(message);
    return true;
  }

  /** Applies a change that has no version of its own: a frame of a recording, or what a trial led to. */
  change(changes: Changes): SomeChange {
    const nodes = new Set(changes.goneNodes);
    const change: SomeChange = { whole: false, nodes, pods: [] };
    for (const name of changes.goneNodes) this.nodes.delete(name);
    for (const key of changes.gonePods) {
      const before = this.pods.get(key);
      if (before) {
        this.#remove(before);
        change.pods.push({ before });
      }
    }
    for (const node of nodeItems(changes.nodes)) {
      this.nodes.set(node.name, node);
      nodes.add(node.name);
    }
    for (const after of podItems(changes.pods, WHOLE.names)) {
      const before = this.pods.get(after.key);
      if (before) this.#remove(before);
      this.#add(after);
      change.pods.push({ before, after });
    }
    this.#tell(change);
    return change;
  }

  /** A copy that can be changed without changing this one; items are shared. */
  copy(): PlanModel {
    const copy = new PlanModel();
    copy.version = this.version;
    for (const node of this.nodes.values()) copy.nodes.set(node.name, node);
    for (const pod of this.pods.values()) copy.#add(pod);
    return copy;
  }

  #clear(): void {
    this.nodes.clear();
    this.pods.clear();
    this.#onNode.clear();
    this.#pending.clear();
  }

  /** Pods that are new, many at once. To look each node up by its name would take longer than all the rest. */
  #fill(block: PodsRecord, { names, lists } = WHOLE): void {
    podItems(block, names).forEach((pod, i) => {
      this.pods.set(pod.key, pod);
      const node = block.node[i]!;
      if (!pod.node) this.#pending.add(pod);
      else if (node < names.length) {
        lists[node] ??= this.#listOf(pod.node);
        lists[node].push(pod);
      } else this.#listOf(pod.node).push(pod);
    });
  }

  #listOf(node: string): PodItem[] {
    let found = this.#onNode.get(node);
    if (!found) {
      found = [];
      this.#onNode.set(node, found);
    }
    return found;
  }

  #add(pod: PodItem): void {
    this.pods.set(pod.key, pod);
    if (!pod.node) {
      this.#pending.add(pod);
      return;
    }
    this.#listOf(pod.node).push(pod);
  }

  #remove(pod: PodItem): void {
    this.pods.delete(pod.key);
    this.#pending.delete(pod);
    const there = this.#onNode.get(pod.node);
    const at = there?.indexOf(pod) ?? -1;
    if (!there || at < 0) return;
    there[at] = there.at(-1)!;
    there.pop();
    if (!there.length) this.#onNode.delete(pod.node);
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function* nodeItems(block: NodesRecord): Generator<NodeItem> {
  for (let i = 0; i < block.name.length; i++) {
    yield {
      name: block.name[i]!,
      labels: block.labelSets[block.labels[i]!]!,
      taints: block.taintSets[block.taints[i]!]!,
      allocatable: block.amountSets[block.allocatable[i]!]!,
      unschedulable: block.unschedulable[i]!,
    };
  }
}

/** `known`: node names that the block's own come after. */
function podItems(block: PodsRecord, known: readonly string[]): PodItem[] {
  const {
    key: keys,
    node,
    nominatedNode,
    workload,
    labels,
    requests,
    priority,
    created,
    nodeNames,
    workloads,
    labelSets,
    amountSets,
  } = block;
  // Names of namespaces and of families are shared between their pods: a hundred thousand copies would be megabytes.
  const namespaces = new Map<string, [string, string[]]>();
  const times = block.times.map((time) => Date.parse(time) || 0);
  const terminating = new Set(block.terminating);
  const nodeAt = (at: number) => (at < known.length ? known[at]! : nodeNames[at - known.length]!);
  const found = new Array<PodItem>(keys.length);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    const slash = key.indexOf("/");
    const text = key.slice(0, slash);
    let known = namespaces.get(text);
    if (known === undefined) {
      known = [text, []];
      namespaces.set(text, known);
    }
    const [namespace, families] = known;
    const number = workload[i]!;
    families[number] ??= `${namespace}/${workloads[number] || "pods of their own"}`;
    found[i] = {
      key,
      namespace,
      name: key.slice(slash + 1),
      node: nodeAt(node[i]!),
      nominatedNode: nodeAt(nominatedNode[i]!),
      workload: workloads[number]!,
      family: families[number],
      labels: labelSets[labels[i]!]!,
      requests: amountSets[requests[i]!]!,
      priority: priority[i]!,
      created: times[created[i]!]!,
      terminating: terminating.has(i),
    };
  }
  return found;
}
