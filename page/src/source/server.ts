/** The source for a page that a server serves. */
import type { PlanMessage } from "../plan/model";
import type { SourceRecord, WhatIfChange } from "../protocol";
import type { Moment } from "../shell/address";
import { type Beginning, begin, request, stream } from "./requests";
import { type Capability, type Follower, Refused, type Source } from "./source";
import { events } from "./stream";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Milliseconds of silence after which a stream counts as dead: the server sends a heartbeat every 15 s. */
const SILENCE = 40_000;

function fetchJson<T>(address: string, init?: RequestInit): Promise<T> {
  return answer(request(address, init));
}

async function answer<T>(asked: Promise<Response>): Promise<T> {
  let response: Response;
  try {
    response = await asked;
  } catch {
    throw new Refused("The server does not answer.");
  }
  if (!response.ok) throw new Refused(await refusal(response), response.status);
  return (await response.json()) as T;
}

async function refusal(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const said = JSON.parse(text) as { error?: string; message?: string };
    return said.error ?? said.message ?? response.statusText;
  } catch {
    return text.slice(0, 500) || `The server answered ${response.status}.`;
  }
}

export async function serverSource(): Promise<Source> {
  const begun = alreadyBegun() ?? begin();
  try {
    return new Server(await answer<SourceRecord>(begun.source), begun);
  } catch (error) {
    begun.stop.abort();
    throw error;
  }
}

/** The requests started by `first.ts`; consumed once. */
function alreadyBegun(): Beginning | undefined {
  const found = globalThis as { stowplanBegun?: Beginning };
  const begun = found.stowplanBegun;
  delete found.stowplanBegun;
  return begun;
}

class Server implements Source {
  constructor(
    readonly about: SourceRecord,
    private begun?: Beginning,
  ) {}

  can(what: Capability): boolean {
    return this.about.can.includes(what);
  }

  explain = (pod: string, moment?: Moment) =>
    fetchJson<never>(`explain/${path(pod)}?${new URLSearchParams({ suggestions: "true", ...moment })}`);
  pending = (limit = 500) => fetchJson<never>(`pending?limit=${limit}`);
  decisions = (limit = 500) => fetchJson<never>(`decisions?limit=${limit}`);
  group = (group: string, moment?: Moment) =>
    fetchJson<never>(`podgroups/${path(group)}?${new URLSearchParams({ verdict: "true", ...moment })}`);
  room = () => fetchJson<never>("room");
  use = () => fetchJson<never>("use");
  devices = () => fetchJson<never>("devices");
  devicesOn = (node: string) => fetchJson<never>(`devices/${encodeURIComponent(node)}`);
  configuration = () => fetchJson<never>("configuration");
  whatIf = (change: WhatIfChange) =>
    fetchJson<never>("what-if", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ change }),
    });
  time = (timeline: string) => fetchJson<never>(`time?${new URLSearchParams({ timeline })}`);
  frames = (timeline: string) => fetchJson<never>(`frames?${new URLSearchParams({ timeline })}`);

  follow(follower: Follower): () => void {
    const { stop, plan } = this.begun ?? { stop: new AbortController(), plan: undefined };
    this.begun = undefined;
    void this.#follow(follower, stop, plan);
    return () => stop.abort();
  }

  async #follow(follower: Follower, stop: AbortController, first?: Promise<Response>): Promise<void> {
    let wait = FIRST_WAIT;
    let begun = first;
    while (!stop.signal.aborted) {
      follower.connection("connecting");
      try {
        const response = begun ?? stream(stop.signal);
        begun = undefined;
        for await (const message of messages(await response)) {
          if (stop.signal.aborted) return;
          follower.message(message);
          follower.connection("live");
          wait = FIRST_WAIT;
        }
        follower.connection("lost", "The stream ended.");
      } catch (error) {
        if (stop.signal.aborted) return;
        follower.connection("lost", error instanceof Error ? error.message : String(error));
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }
}

/** The plan's messages as they arrive. Each stream starts with a snapshot. */
async function* messages(response: Response): AsyncGenerator<PlanMessage> {
  if (!response.ok || !response.body) throw new Refused(await refusal(response), response.status);
  for await (const data of events(response.body, SILENCE)) yield JSON.parse(data) as PlanMessage;
}

function path(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}
