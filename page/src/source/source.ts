/** Where a page's data comes from: a server, or the data that a static copy carries. Views know only this interface. */
import type { Moment } from "../shell/address";
import type {
  Capability,
  ConfigurationRecord,
  DecisionsRecord,
  FramesRecord,
  GroupStateRecord,
  NodeRecord,
  PlanMessage,
  QueueRecord,
  SourceRecord,
  StoryRecord,
  TimeRecord,
  VerdictRecord,
  WhatIfChange,
  WhatIfRecord,
} from "../protocol";

/** What became of the stream: "live" once messages come, "lost" while it is tried again. */
export type Connection = "connecting" | "live" | "lost" | "static";

export interface Follower {
  message(message: PlanMessage): void;
  connection(state: Connection, why?: string): void;
}

/** What a source refused, or could not be asked; the text is meant for people. */
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
  can(what: Capability): boolean;
  /** Calls the follower with messages until the returned function is called. */
  follow(follower: Follower): () => void;
  /** As of a moment of a timeline, if one is given. */
  explain(pod: string, moment?: Moment): Promise<VerdictRecord>;
  pending(limit?: number): Promise<QueueRecord>;
  decisions(limit?: number): Promise<DecisionsRecord>;
  /** `pod` and `group` are namespace/name. */
  story(pod: string): Promise<StoryRecord>;
  node(name: string): Promise<NodeRecord>;
  group(group: string, moment?: Moment): Promise<GroupStateRecord>;
  configuration(): Promise<ConfigurationRecord>;
  whatIf(change: WhatIfChange): Promise<WhatIfRecord>;
  time(timeline: string): Promise<TimeRecord>;
  frames(timeline: string, from?: string, until?: string): Promise<FramesRecord>;
}
