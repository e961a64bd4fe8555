/** Requests to the server beside the page, by addresses relative to it. */
import { headers } from "./access";

/** What every view begins with. The plan is asked for at once: it takes longest, and nothing of it depends on what the source is. */
export interface Beginning {
  stop: AbortController;
  plan: Promise<Response>;
  source: Promise<Response>;
}

export function begin(): Beginning {
  const stop = new AbortController();
  const begun = { stop, plan: stream(stop.signal), source: request("source") };
  // Who waits for one of them may give up because of the other.
  for (const response of [begun.plan, begun.source]) response.catch(() => {});
  return begun;
}

export function stream(signal: AbortSignal): Promise<Response> {
  return request("plan", { headers: { Accept: "text/event-stream" }, signal });
}

export function request(address: string, init?: RequestInit): Promise<Response> {
  return fetch(address, { cache: "no-store", ...init, headers: { ...headers(), ...init?.headers } });
}
