/** Requests to the server beside the page, by addresses relative to it. */
import { headers } from "./access";

/** Requests that every view needs. The plan is requested at once: it takes longest, and does not depend on the source. */
export interface Beginning {
  stop: AbortController;
  plan: Promise<Response>;
  source: Promise<Response>;
}

export function begin(): Beginning {
  const stop = new AbortController();
  const begun = { stop, plan: stream(stop.signal), source: request("source") };
  // Avoids an unhandled rejection if the other request fails first.
  for (const response of [begun.plan, begun.source]) response.catch(() => {});
  return begun;
}

export function stream(signal: AbortSignal): Promise<Response> {
  return request("plan", { headers: { Accept: "text/event-stream" }, signal });
}

export function request(address: string, init?: RequestInit): Promise<Response> {
  return fetch(address, { cache: "no-store", ...init, headers: { ...headers(), ...init?.headers } });
}
