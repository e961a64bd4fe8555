/**
 * The page's model of the cluster: nodes and pods by name, updated by the server's messages.
 *
 * Messages have columns; here each row becomes an immutable object, and a changed row a new one. So caches by object can
 * tell by identity whether an entry is still valid.
 */
import type {
  DeltaMessage,
  DeviceCountRecord,
  DevicesRecord,
  NodesRecord,
  PartMessage,
  PodsRecord,
  SnapshotMessage,
} from "../protocol";

export type PlanMessage = SnapshotMessage | PartMessage | DeltaMessage;
/** The changes of a delta, without its version. */
export type Changes = Pick<DeltaMessage, "nodes" | "pods" | "goneNodes" | "gonePods">;

export interface NodeItem {
  readonly name: string;
  readonly labels: Record<string, string>;
  /** Key, value and effect. */
  readonly taints: readonly [string, string, string][];
  readonly allocatable: Record<string, number>;
  readonly unschedulable: boolean;
  /** Of drivers, whose other devices may be tainted, blocked, or held from elsewhere. */
  readonly freeDevices?: Record<string, number>;
}

export interface PodItem {
  /** namespace/name */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  /** "" while it is pending. */
  readonly node: string;
  readonly nominatedNode: string;
  /** Kind/name of its workload: a Deployment rather than its ReplicaSet; "" for none. */
  readonly workload: string;
  /** The workload's name on the page, including its namespace. Pods without one share what precedes their number. */
  readonly family: string;
  readonly labels: Record<string, string>;
  readonly requests: Record<string, number>;
  readonly priority: number;
  /** Milliseconds since the epoch, 0 if unknown. */
  readonly created: number;
  readonly terminating: boolean;
  /** namespace/name of its pod group, "" for none. */
  readonly group: string;
}

/** A changed pod: only `after` for a new one, only `before` for a deleted one. */
export interface PodChange {
  before?: PodItem;
  after?: PodItem;
}

export type Change = WholeChange | SomeChange;

/** Every pod may have changed; `nodes`: nodes, too. */
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
/** Milliseconds between notifications while the parts of a snapshot arrive. */
const FILLING = 2000;

export class PlanModel {
  version = 0;
  /** Whether more parts of a snapshot are expected. */
  loading = false;
  #notified = 0;
  /** While a snapshot is incomplete: its node names by index, and the pods of each. */
  #parts = WHOLE;
  #devicesOfNodes = new Map<string, readonly DeviceCountRecord[]>();
  #devicesOfPods = new Map<string, Record<string, number>>();
  readonly nodes = new Map<string, NodeItem>();
  readonly pods = new Map<string, PodItem>();
  /** Arrays, because nodes have few pods, and creating thousands of sets costs more than searching arrays. */
  readonly #onNode = new Map<string, PodItem[]>();
  readonly #pending = new Set<PodItem>();
  readonly #listeners = new Set<(change: Change) => void>();

  /** The pods on a node, unordered; unknown nodes can have pods, too. */
  podsOn(node: string): readonly PodItem[] {
    return this.#onNode.get(node) ?? NO_PODS;
  }

  /** Pods without a node. */
  get pending(): ReadonlySet<PodItem> {
    return this.#pending;
  }

  /** Calls back after each change until the returned function is called. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Returns false if the message is a delta to another version, so that a snapshot is needed. */
  apply(message: PlanMessage): boolean {
    if (message.kind !== "delta") {
      const first = message.kind === "snapshot";
      if (first) {
        this.#clear();
        for (const node of nodeItems(message.nodes)) this.nodes.set(node.name, this.#withDevices(node));
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

  /** Applies a change without a version: a frame of a timeline, or the result of a trial. */
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
      this.nodes.set(node.name, this.#withDevices(node));
      nodes.add(node.name);
    }
    for (const item of podItems(changes.pods, WHOLE.names)) {
      const after = this.#holding(item);
      const before = this.pods.get(after.key);
      if (before) this.#remove(before);
      this.#add(after);
      change.pods.push({ before, after });
    }
    this.#tell(change);
    return change;
  }

  /** From now on nodes have devices, and pods hold them, as if they were resources with the names of their drivers. */
  takeDevices(devices: DevicesRecord): void {
    const [oldNodes, oldPods] = [this.#devicesOfNodes, this.#devicesOfPods];
    this.#devicesOfNodes = new Map(Object.entries(devices.nodes));
    this.#devicesOfPods = new Map(Object.entries(devices.pods));
    const change: SomeChange = { whole: false, nodes: new Set(), pods: [] };
    for (const name of different(oldNodes, this.#devicesOfNodes)) {
      const node = this.nodes.get(name);
      if (!node) continue;
      const { freeDevices, ...bare } = node;
      const allocatable = without(node.allocatable, Object.keys(freeDevices ?? {}));
      this.nodes.set(name, this.#withDevices({ ...bare, allocatable }));
      change.nodes.add(name);
    }
    for (const key of different(oldPods, this.#devicesOfPods)) {
      const before = this.pods.get(key);
      if (!before) continue;
      const requests = without(before.requests, Object.keys(oldPods.get(key) ?? {}));
      const after = this.#holding({ ...before, requests });
      this.#remove(before);
      this.#add(after);
      change.pods.push({ before, after });
    }
    if (change.nodes.size || change.pods.length) this.#tell(change);
  }

  get drivers(): ReadonlySet<string> {
    return new Set([...this.#devicesOfNodes.values()].flatMap((of) => of.map(({ driver }) => driver)));
  }

  #withDevices(node: NodeItem): NodeItem {
    const counts = this.#devicesOfNodes.get(node.name);
    if (!counts) return node;
    const of = (value: (count: DeviceCountRecord) => number) =>
      Object.fromEntries(counts.map((count) => [count.driver, value(count)]));
    return {
      ...node,
      allocatable: { ...node.allocatable, ...of(({ devices }) => devices) },
      freeDevices: of(({ devices, held, unusable }) => devices - held - unusable),
    };
  }

  #holding(pod: PodItem): PodItem {
    const held = this.#devicesOfPods.size ? this.#devicesOfPods.get(pod.key) : undefined;
    return held ? { ...pod, requests: { ...pod.requests, ...held } } : pod;
  }

  /** A copy that can be changed without changing this one; items are shared. */
  copy(): PlanModel {
    const copy = new PlanModel();
    copy.version = this.version;
    copy.#devicesOfNodes = this.#devicesOfNodes;
    copy.#devicesOfPods = this.#devicesOfPods;
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

  /** Adds many new pods. Looking up each node by name would take longer than everything else. */
  #fill(block: PodsRecord, { names, lists } = WHOLE): void {
    podItems(block, names).forEach((item, i) => {
      const pod = this.#holding(item);
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

/** Names whose values differ. */
function different<T>(old: ReadonlyMap<string, T>, now: ReadonlyMap<string, T>): string[] {
  const names = [...new Set([...old.keys(), ...now.keys()])];
  return names.filter((name) => JSON.stringify(old.get(name)) !== JSON.stringify(now.get(name)));
}

function without(amounts: Record<string, number>, names: readonly string[] = []): Record<string, number> {
  return Object.fromEntries(Object.entries(amounts).filter(([name]) => !names.includes(name)));
}

const BROKEN = /^node\.kubernetes\.io\/(not-ready|unreachable|out-of-service)$/;

/** Whether it has failed, as its taints tell. */
export function isBroken(node: NodeItem): boolean {
  return node.taints.some(([key, , effect]) => BROKEN.test(key) && effect !== "PreferNoSchedule");
}

export function takesPods(node: NodeItem): boolean {
  return !node.unschedulable && !isBroken(node);
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

/** A Deployment rather than its ReplicaSet, which has the hash of the pods' template in its name. */
function ownerOf(controller: string, labels: Record<string, string>): string {
  const hash = labels["pod-template-hash"];
  return hash && controller.startsWith("ReplicaSet/") && controller.endsWith(`-${hash}`)
    ? `Deployment/${controller.slice("ReplicaSet/".length, -hash.length - 1)}`
    : controller;
}

/** What pods without a controller have in common: train-1 and train-2 are both train. */
export function stemOf(name: string): string {
  return name.replace(/(-\d+)+$/, "");
}

/** `known`: node names that precede those of the block. */
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
    podGroup = [],
    podGroups = [],
  } = block;
  // Strings are shared between pods: a hundred thousand copies would be megabytes.
  const namespaces = new Map<string, [string, string[]]>();
  const times = block.times.map((time) => Date.parse(time) || 0);
  const terminating = new Set(block.terminating);
  const owners: string[] = [];
  const strings = new Map<string, string>();
  const shared = (text: string) => {
    const there = strings.get(text);
    if (there === undefined) strings.set(text, text);
    return there ?? text;
  };
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
    const name = key.slice(slash + 1);
    owners[number] ??= ownerOf(workloads[number]!, labelSets[labels[i]!]!);
    const owner = owners[number]!;
    let family = owner ? families[number] : undefined;
    if (family === undefined) {
      family = shared(`${namespace}/${owner || stemOf(name)}`);
      families[number] = family;
    }
    found[i] = {
      key,
      namespace,
      name,
      node: nodeAt(node[i]!),
      nominatedNode: nodeAt(nominatedNode[i]!),
      workload: owner,
      family,
      labels: labelSets[labels[i]!]!,
      requests: amountSets[requests[i]!]!,
      priority: priority[i]!,
      created: times[created[i]!]!,
      terminating: terminating.has(i),
      group: podGroups[podGroup[i] ?? 0] ?? "",
    };
  }
  return found;
}
