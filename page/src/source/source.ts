/** Where a page's data comes from: a server, or the data of a saved copy. Views know only this interface. */
import type { PlanMessage } from "../plan/model";
import type {
  ConfigurationRecord,
  DecisionsRecord,
  DevicesRecord,
  FramesRecord,
  GroupStateRecord,
  NodeDevicesRecord,
  QueueRecord,
  ReportRecord,
  RoomOverTimeRecord,
  RoomRecord,
  SourceRecord,
  TimeRecord,
  UseRecord,
  VerdictRecord,
  WhatIfChange,
  WorkbenchRecord,
} from "../protocol";
import type { Moment } from "../shell/address";

export type Capability = SourceRecord["can"][number];

/** The state of the stream: "live" once messages arrive, "lost" while it reconnects. */
export type Connection = "connecting" | "live" | "lost" | "static";

export interface Follower {
  message(message: PlanMessage): void;
  connection(state: Connection, why?: string): void;
}

/** An error response, or no response; the message is for users. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number = 0,
  ) {
    super(message);
  }
}

export interface Source {
  readonly about: SourceRecord;
  /** Of a saved report. */
  readonly report?: ReportRecord | undefined;
  can(what: Capability): boolean;
  /** Calls the follower with messages until the returned function is called. */
  follow(follower: Follower): () => void;
  /** As of a moment of a timeline, if one is given. */
  explain(pod: string, moment?: Moment): Promise<VerdictRecord>;
  pending(limit?: number): Promise<QueueRecord>;
  decisions(limit?: number): Promise<DecisionsRecord>;
  /** `group` is namespace/name. */
  group(group: string, moment?: Moment): Promise<GroupStateRecord>;
  room(): Promise<RoomRecord & Partial<RoomOverTimeRecord>>;
  use(): Promise<UseRecord>;
  devices(): Promise<DevicesRecord>;
  devicesOn(node: string): Promise<NodeDevicesRecord>;
  configuration(): Promise<ConfigurationRecord>;
  whatIf(change: WhatIfChange): Promise<WorkbenchRecord>;
  time(timeline: string): Promise<TimeRecord>;
  frames(timeline: string): Promise<FramesRecord>;
}
