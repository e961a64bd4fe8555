/** The page's URLs, which identify every view: #/view/part/part?key=value. */
import { useEffect, useState } from "preact/hooks";

export interface Address {
  view: string;
  /** Decoded parts after the view: #/pod/NS/NAME has two. */
  parts: string[];
  query: URLSearchParams;
}

/** The view of an empty address. */
let home = "plan";
export function setHome(view: string): void {
  home = view;
}
export const homeHref = () => href(home);

export function parse(hash: string): Address {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view = "", ...parts] = path.split("/").map(decoded);
  return { view: view || home, parts, query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address as the value of an href; undefined and empty values are left out. */
export function href(view: string, parts: string[] = [], query: Record<string, string | undefined> = {}): string {
  const kept = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const tail = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}${tail}`;
}

/** `query`: see `momentQuery`. */
export const podHref = (pod: string, query: Record<string, string> = {}) => href("pod", split(pod), query);
export const groupHref = (group: string, query: Record<string, string> = {}) => href("group", split(group), query);
export const nodeHref = (node: string) => href("node", [node]);

function split(key: string): string[] {
  const at = key.indexOf("/");
  return at < 0 ? ["default", key] : [key.slice(0, at), key.slice(at + 1)];
}

/** A moment of a timeline: seconds since the epoch, as the server wrote them. */
export interface Moment {
  timeline: string;
  at: string;
}

/** The moment that a view shows; undefined: that of the plan. */
export function momentOf({ query }: Address): Moment | undefined {
  const [timeline, at] = [query.get("timeline"), query.get("at")];
  return timeline !== null && at ? { timeline, at } : undefined;
}

export const momentQuery = (moment: Moment | undefined): Record<string, string> => (moment ? { ...moment } : {});

/** Changes query values of the URL; a new history entry only with `push`. */
export function amend(
  address: Address,
  values: Record<string, string | undefined>,
  options: { push?: boolean } = {},
): void {
  const query = Object.fromEntries(address.query);
  go(href(address.view, address.parts, { ...query, ...values }), options);
}

export function go(hash: string, options: { push?: boolean } = {}): void {
  if (hash === location.hash) return;
  if (options.push) location.hash = hash;
  else {
    history.replaceState(null, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  }
}

export function useAddress(): Address {
  const [address, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => set(parse(location.hash));
    window.addEventListener("hashchange", changed);
    // It may have changed since the first render.
    changed();
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return address;
}
