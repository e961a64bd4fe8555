/** The source for a saved copy: its data is in the page, compressed. */
import type { ReportRecord, SavedData, SourceRecord } from "../protocol";
import { type Capability, type Follower, Refused, type Source } from "./source";

/** Undefined if a server has the data. */
export async function savedData(): Promise<SavedData | undefined> {
  const packed = document.getElementById("data")?.textContent;
  if (!packed) return undefined;
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(unpacked).json()) as SavedData;
}

export class StaticSource implements Source {
  readonly about: SourceRecord;
  readonly report: ReportRecord | undefined;

  constructor(private readonly data: SavedData) {
    this.about = data.source;
    this.report = data.report;
  }

  can(what: Capability): boolean {
    return this.about.can.includes(what);
  }

  follow(follower: Follower): () => void {
    follower.message(this.data.plan);
    follower.connection("static");
    return () => {};
  }

  explain = async (pod: string) => given(this.data.explain?.[pod], `the verdict on ${pod}`);
  pending = async () => given(this.data.pending, "the queue");
  decisions = async () => absent("the decisions");
  group = async () => absent("details of groups");
  room = async () => given(this.data.room, "the room");
  use = async () => given(this.data.use, "the measured use");
  devices = async () => given(this.data.devices, "the list of devices");
  devicesOn = async (node: string) => this.data.devicesOn?.[node] ?? { kind: "NodeDevices", node, devices: [] };
  configuration = async () => given(this.data.configuration, "the configuration");
  whatIf = async () => absent("a scheduler");
  time = async (timeline: string) => given(this.data.time?.[timeline], `the timeline of ${timeline}`);
  frames = async (timeline: string) => given(this.data.frames?.[timeline], `the timeline of ${timeline}`);
}

function given<T>(value: T | undefined, what: string): T {
  return value ?? absent(what);
}

function absent(what: string): never {
  throw new Refused(`This is a saved copy, and ${what} is not in it.`, 404);
}
