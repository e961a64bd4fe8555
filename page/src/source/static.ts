/** The source for a saved copy: its data is in data.js. */
import type { SavedData, SourceRecord } from "../protocol";
import { type Capability, type Follower, Refused, type Source } from "./source";

export function staticData(): SavedData | undefined {
  return (globalThis as { stowplanData?: SavedData }).stowplanData;
}

export class StaticSource implements Source {
  readonly about: SourceRecord;

  constructor(private readonly data: SavedData) {
    this.about = data.source;
  }

  can(what: Capability): boolean {
    return this.about.can.includes(what);
  }

  follow(follower: Follower): () => void {
    follower.message(this.data.plan);
    follower.connection("static");
    return () => {};
  }

  explain = async (pod: string) => given(this.data.explain[pod], `the verdict on ${pod}`);
  pending = async () => given(this.data.pending, "the queue");
  decisions = async () => absent("the decisions");
  group = async () => absent("details of groups");
  configuration = async () => this.data.configuration;
  whatIf = async () => absent("a scheduler");
  time = async (timeline: string) => given(this.data.time[timeline], `the timeline of ${timeline}`);
  frames = async (timeline: string) => given(this.data.frames[timeline], `the timeline of ${timeline}`);
}

function given<T>(value: T | undefined, what: string): T {
  return value ?? absent(what);
}

function absent(what: string): never {
  throw new Refused(`This is a saved copy, and ${what} is not in it.`, 404);
}
