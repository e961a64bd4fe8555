/**
 * What the server sends, as types. Nothing here is checked at run time: it is our own server that answers, and every
 * string of it is shown as text only.
 */

export type Strings = Record<string, string>;
export type Amounts = Record<string, number>;
/** Key, value and effect. */
export type Taint = [string, string, string];

// -- the plan ------------------------------------------------------------------------------------------------------

/** Columns of equal length; labels, taints and allocatable are positions in the lists below them. */
export interface NodesBlock {
  name: string[];
  labels: number[];
  taints: number[];
  allocatable: number[];
  unschedulable: boolean[];
  labelSets: Strings[];
  taintSets: Taint[][];
  amountSets: Amounts[];
}

export interface PodsBlock {
  key: string[];
  /** Positions in `nodeNames`, whose first one is "": no node. */
  node: number[];
  nominatedNode: number[];
  workload: number[];
  labels: number[];
  requests: number[];
  priority: number[];
  /** Positions in `times`. */
  created: number[];
  /** Not a column: the rows of those that are being deleted. */
  terminating: number[];
  nodeNames: string[];
  workloads: string[];
  times: string[];
  labelSets: Strings[];
  amountSets: Amounts[];
}

export interface SnapshotMessage {
  schemaVersion?: number;
  kind: "snapshot";
  version: number;
  nodes: NodesBlock;
  pods: PodsBlock;
  /** Whether more of its pods follow. */
  more?: boolean;
}

/** More of the pods of a snapshot. Their node names begin with "" and those of its nodes, which are not repeated. */
export interface PartMessage {
  kind: "part";
  version: number;
  pods: PodsBlock;
  more: boolean;
}

/** What a delta changes, without its place in the order. */
export interface Changes {
  nodes: NodesBlock;
  pods: PodsBlock;
  goneNodes: string[];
  gonePods: string[];
}

export interface DeltaMessage extends Changes {
  schemaVersion?: number;
  kind: "delta";
  version: number;
  since: number;
}

export type PlanMessage = SnapshotMessage | PartMessage | DeltaMessage;

// -- what is served ------------------------------------------------------------------------------------------------

export type Mode = "live" | "files" | "recording" | "simulation" | "static";
export type Capability =
  | "plan"
  | "explain"
  | "pending"
  | "decisions"
  | "stories"
  | "nodes"
  | "podgroups"
  | "moments"
  | "whatIf"
  | "configuration"
  | "time";

export interface SourceRecord {
  kind: "Source";
  mode: Mode;
  title: string;
  schedulerName?: string;
  version?: string;
  can: Capability[];
  /** Why some routes do not answer that others like it have, for people. */
  whyNot?: Strings;
  timelines?: string[];
}

export interface RefusalDocument {
  kind: "Refusal";
  error: string;
}

// -- stories, decisions and the queue ------------------------------------------------------------------------------

export interface Attempt {
  attempt?: number;
  milliseconds?: number;
  node?: string;
  code?: string;
  message?: string;
  unschedulablePlugins?: string[];
  pendingPlugins?: string[];
  refused?: Record<string, number>;
  nominatedNode?: string;
  victims?: string[];
  victimsTotal?: number;
  pdbViolations?: number;
}

export interface Decision extends Attempt {
  time: string;
  pod: string;
  uid: string;
  schedulerName: string;
}

export interface DecisionsRecord {
  decisions: Decision[];
}

export interface Step extends Attempt {
  time: string;
  what: string;
  cause?: string;
  detail?: string;
}

export interface StoryRecord {
  pod: string;
  uid: string;
  steps: Step[];
  forgotten?: number;
  stepsBeforeGap?: number;
}

export interface QueueState {
  place?: string;
  attempts?: number;
  since?: string;
  backoffUntil?: string;
  gatedBy?: string;
  rejectedBy?: string[];
}

export interface QueuedPod extends QueueState {
  pod: string;
  /** Why most nodes refuse it. */
  reason?: string;
}

/** An event after which refused pods are tried again. */
export interface Wake {
  time: string;
  event: string;
  /** Kind and name of what changed. */
  by?: string;
  count: number;
  /** The first of the pods, and who had refused those. */
  pods: string[];
  rejectedBy?: string[];
}

export interface QueueRecord {
  counts: Record<string, number>;
  pods: QueuedPod[];
  leftOut: number;
  wakes?: Wake[];
  leader?: string;
}

// -- verdicts ------------------------------------------------------------------------------------------------------

export interface Status {
  plugin: string;
  code: string;
  reasons: string[];
  detail?: string;
}

export interface Refusal extends Status {
  nodes: number;
  names: string[];
}

export interface Preemption {
  plugin?: string;
  eligible: boolean;
  reason?: string;
  candidates?: Record<string, { victims: string[]; pdbViolations: number }>;
  selected?: string[];
}

export interface Suggestion {
  text: string;
  gain: number;
  nodes: string[];
  changes: Record<string, unknown>[];
  note?: string;
}

export interface Condition {
  status?: string;
  reason?: string;
  message?: string;
  since?: string;
}

export interface EventRecord {
  time?: string;
  type?: string;
  reason?: string;
  note?: string;
  from?: string;
  count: number;
}

export interface SchedulerRecord extends QueueState {
  node?: string;
  story?: StoryRecord;
  condition?: Condition;
  events?: EventRecord[];
}

export interface GroupPod {
  pod: string;
  node: string;
  victims?: string[];
}

export interface GroupDomain {
  name?: string;
  nodes: number;
  fits?: boolean;
  chosen?: boolean;
  lacking?: number;
  lackingResources?: Strings;
  placed?: GroupPod[];
  refused?: { reason: string; message: string; plugins?: string[]; pods: number; names: string[] }[];
  victims?: string[];
}

export interface GroupVerdict {
  kind: string;
  podGroup: string;
  policy?: string;
  minCount?: number;
  topologyKey?: string;
  fits?: boolean;
  waitsForPreemption?: boolean;
  code: string;
  message?: string;
  pods?: string[];
  judgedAsPending?: boolean;
  haveNode?: Strings;
  heldBack?: Strings;
  domain?: string;
  domains?: GroupDomain[];
  condition?: Condition;
  /** Changes that let it fit. */
  relief?: { text: string; note?: string }[];
}

export interface VerdictRecord {
  kind: "Explain";
  pod: string;
  alike?: string[];
  error?: string;
  node?: string;
  nominated?: boolean;
  nominatedNode?: string;
  currentNode?: string;
  preFilterMessage?: string;
  absentNodesStatus?: Status;
  unschedulablePlugins?: string[];
  refusals?: Refusal[];
  rejected?: Record<string, Status>;
  feasibleNodes?: number;
  feasible?: string[];
  scores?: Record<string, Record<string, number>>;
  totals?: Record<string, number>;
  message?: string;
  suggestions?: Suggestion[];
  preemption?: Preemption;
  scheduler?: SchedulerRecord;
  podGroup?: GroupVerdict;
  [more: string]: unknown;
}

export interface GroupStateRecord {
  podGroup: string;
  minCount?: number;
  condition?: Condition;
  waiting?: QueuedPod[];
  haveNode?: Strings;
  /** What would be decided now, and what was left out of that. */
  verdict?: GroupVerdict;
  note?: string;
  story?: StoryRecord;
  leader?: string;
}

export interface NodeRecord {
  kind?: string;
  [more: string]: unknown;
}

// -- the configuration ---------------------------------------------------------------------------------------------

export interface PluginAtPoint {
  name: string;
  weight: number;
  from: string;
}

export interface ProfileConfiguration {
  schedulerName: string;
  percentageOfNodesToScore: number;
  points: { point: string; plugins: PluginAtPoint[] }[];
  /** Default plugins that do not run, wholly or at some points. */
  leftOut: { name: string; why: string }[];
  args: { name: string; value: unknown }[];
}

export interface ConfigurationRecord {
  kind: "Configuration";
  profiles: ProfileConfiguration[];
  extenders: Record<string, unknown>[];
  yaml: string;
}

// -- what if -------------------------------------------------------------------------------------------------------

export interface WhatIfChange {
  addNodes?: { count: number; like: string }[];
  remove?: string[];
  drain?: string[];
  label?: { node: string; key: string; value: string | null }[];
  taint?: { node: string; key: string; value?: string; effect?: string; remove?: boolean }[];
  scale?: { kind: string; namespace: string; name: string; replicas: number }[];
  /** Profile, plugin, weight. */
  weights?: Record<string, Record<string, number>>;
  config?: string;
  manifests?: string;
}

export interface WhatIfRecord {
  kind: "WhatIf";
  /** What is changed, for people. */
  changes: string[];
  before: WhatIfSide;
  after: WhatIfSide;
  /** Pod -> node; "" for none. */
  placed: Strings;
  displaced: Strings;
  /** Pod -> its node before and after. */
  elsewhere: Record<string, [string, string]>;
  /** From the plan that is shown to the one before and the one after, once everybody has looked for a node. */
  settled: Changes;
  plan: Changes;
  commands: string[];
  manifests: string;
  config: string;
}

/** The cluster once the scheduler has done what it can. */
export interface WhatIfSide {
  nodes: number;
  pods: number;
  pending: string[];
  reasons: Record<string, number>;
}

// -- time ----------------------------------------------------------------------------------------------------------

export interface Mark {
  time: string;
  what: string;
  detail?: string;
}

export interface TimeRecord {
  kind: "Time";
  timeline: string;
  from: string;
  to: string;
  marks: Mark[];
  series: { time: number[]; columns: { name: string; unit: string; values: (number | null)[] }[] };
  /** What is not in it. */
  note?: string;
}

export interface Frame extends Changes {
  time: string;
}

export interface FramesRecord {
  kind: "Frames";
  timeline: string;
  start: SnapshotMessage;
  frames: Frame[];
  until?: string;
}

// -- a static copy -------------------------------------------------------------------------------------------------

export interface StaticData {
  source: SourceRecord;
  plan: SnapshotMessage;
  configuration?: ConfigurationRecord;
  pending?: QueueRecord;
  decisions?: DecisionsRecord;
  /** By namespace/name. */
  explain?: Record<string, VerdictRecord>;
  /** By timeline. */
  time?: Record<string, TimeRecord>;
  frames?: Record<string, FramesRecord>;
}
