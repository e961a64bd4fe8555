/**
 * The colours of boxes, and their legend. Kinds have one of eight colours that colour-blind people can distinguish, then
 * the same colours hatched; further kinds share one. Amounts have a scale from light to dark.
 */
import { grouped, sortedNames } from "../parts/format";
import type { PodItem } from "./model";

export type ColourBy = "workload" | "namespace" | "priority" | "age";
export const COLOURS_BY: Record<ColourBy, string> = {
  workload: "Workload",
  namespace: "Namespace",
  priority: "Priority",
  age: "Age",
};

/** A choice in a URL; by workload if it names none. */
export function colourBy(text: string | null): ColourBy {
  return text !== null && Object.hasOwn(COLOURS_BY, text) ? (text as ColourBy) : "workload";
}

export type Pattern = "plain" | "stripes" | "dots";
export interface Paint {
  light: string;
  dark: string;
  pattern: Pattern;
}
export interface LegendEntry {
  name: string;
  paint: Paint;
}

// After Okabe and Ito, with similar lightness, so that labels are readable in both themes.
const KINDS: [string, string][] = [
  ["#2f7fb5", "#4a9bd1"],
  ["#e08a00", "#e9a23b"],
  ["#16896a", "#35ab8a"],
  ["#c77bb0", "#d191be"],
  ["#c9512f", "#e0704f"],
  ["#7fbcd6", "#8ccbe6"],
  ["#d3bd2a", "#e3d04f"],
  ["#6a6fb3", "#8d92d6"],
];
const PATTERNS: Pattern[] = ["plain", "stripes", "dots"];
const KIND_PAINTS = PATTERNS.flatMap((pattern) => KINDS.map(([light, dark]): Paint => ({ light, dark, pattern })));
const OTHER: Paint = { light: "#a9adb0", dark: "#5c6a77", pattern: "plain" };
/** Of amounts that nobody can have. */
export const CLOSED: Paint = { ...OTHER, pattern: "stripes" };
const SCALE: [string, string][] = [
  ["#d7e6ee", "#234257"],
  ["#a5c8dc", "#2f6383"],
  ["#6fa5c4", "#4288b0"],
  ["#3a7ca5", "#6db2d8"],
  ["#15507a", "#b5e0f7"],
];
const STEPS = SCALE.map(([light, dark]): Paint => ({ light, dark, pattern: "plain" }));
const AGES: [number, string][] = [
  [300, "under 5m"],
  [3600, "under 1h"],
  [86400, "under 1d"],
  [7 * 86400, "under 7d"],
  [Infinity, "older"],
];

/** Kind -> index of its colour, as last shown by any view: kinds that still exist keep theirs. */
const KEPT: Record<"workload" | "namespace", ReadonlyMap<string, number>> = {
  workload: new Map(),
  namespace: new Map(),
};

export class Colours {
  /** The number of pods of each kind, of those given. */
  readonly given: ReadonlyMap<string, number>;
  /** The largest kinds first. */
  readonly legend: LegendEntry[];
  /** All paints; several kinds can share one. */
  readonly paints: Paint[] = [OTHER];
  /** Kind -> index of its paint in `paints`. */
  readonly #places = new Map<string, number>();
  readonly #nameOf: (pod: PodItem) => string;

  /** `now`: milliseconds since the epoch, for ages. `all`: whether the plan is complete. */
  constructor(
    readonly by: ColourBy,
    pods: Iterable<PodItem>,
    now: number,
    all = true,
  ) {
    this.#nameOf = NAMERS[by](now);
    this.given = this.counts(pods);
    const names = ordered(by, this.given);
    const order = by === "workload" || by === "namespace" ? placed(names, KEPT[by]) : undefined;
    if (order && all) KEPT[by as "workload" | "namespace"] = order;
    this.legend = names.map((name, i) => {
      const paint = order ? kindPaint(order.get(name)!) : stepOf(by, name, i, names.length);
      let place = this.paints.indexOf(paint);
      if (place < 0) place = this.paints.push(paint) - 1;
      this.#places.set(name, place);
      return { name, paint };
    });
  }

  /** The number of pods of each kind. */
  counts(pods: Iterable<PodItem>): Map<string, number> {
    const counts = new Map<string, number>();
    for (const pod of pods) {
      const name = this.#nameOf(pod);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return counts;
  }

  /** The legend of a saved picture: kinds that there are, with their numbers. */
  keys(counts: ReadonlyMap<string, number>): LegendEntry[] {
    const there = this.legend.filter(({ name }) => counts.get(name));
    return there.map(({ name, paint }) => ({ name: `${name} ${grouped(counts.get(name)!)}`, paint }));
  }

  name(pod: PodItem): string {
    return this.#nameOf(pod);
  }

  /** Kinds that are newer than the legend have the shared colour. */
  paint(pod: PodItem): Paint {
    return this.paints[this.place(pod)]!;
  }

  /** The index of its paint in `paints`. */
  place(pod: PodItem): number {
    return this.#places.get(this.#nameOf(pod)) ?? 0;
  }
}

const NAMERS: Record<ColourBy, (now: number) => (pod: PodItem) => string> = {
  workload: () => (pod) => pod.family,
  namespace: () => (pod) => pod.namespace,
  priority: () => (pod) => grouped(pod.priority),
  age: (now) => (pod) => (pod.created ? AGES.find(([limit]) => (now - pod.created) / 1000 < limit)![1] : "older"),
};

function ordered(by: ColourBy, counts: ReadonlyMap<string, number>): string[] {
  const names = [...counts.keys()];
  if (by === "priority")
    return names.sort((one, other) => Number(one.replaceAll(",", "")) - Number(other.replaceAll(",", "")));
  if (by === "age") return AGES.map(([, name]) => name).filter((name) => counts.has(name));
  return sortedNames(names).sort((one, other) => counts.get(other)! - counts.get(one)!);
}

/**
 * Kind -> index of its colour: that of `before` if it is free, else one derived from the name, or the next free one. If
 * there are too few, the largest kinds have one.
 */
function placed(names: readonly string[], before: ReadonlyMap<string, number>): Map<string, number> {
  const found = new Map<string, number>();
  const taken = new Set<number>();
  const put = (name: string, place: number) => {
    found.set(name, place);
    taken.add(place);
  };
  for (const name of names) {
    const place = before.get(name);
    if (place !== undefined && place < KIND_PAINTS.length && !taken.has(place)) put(name, place);
  }
  const others = names.filter((name) => !found.has(name));
  // In order of names, because sizes change: reloading the page gives the same colours.
  for (const name of others.splice(0, KIND_PAINTS.length - taken.size).sort()) {
    const first = hashed(name);
    let tries = 0;
    while (taken.has(tried(first, tries))) tries++;
    put(name, tried(first, tries));
  }
  for (const name of others) found.set(name, KIND_PAINTS.length);
  return found;
}

/** The index to try next: all plain paints before the hatched ones. */
function tried(first: number, tries: number): number {
  return tries - (tries % KINDS.length) + ((first + tries) % KINDS.length);
}

/** FNV-1a. */
function hashed(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

function stepOf(by: ColourBy, name: string, i: number, of: number): Paint {
  return by === "age"
    ? step(
        AGES.findIndex(([, age]) => age === name),
        AGES.length,
      )
    : step(i, of);
}

/** The paints of shares, from little to much, with their names. */
export const SHARES: [string, Paint][] = STEPS.map((paint, i) => [
  `${(100 * i) / STEPS.length}–${(100 * (i + 1)) / STEPS.length} %`,
  paint,
]);

/** The paint of the share that a part is of a whole. */
export function share(part: number, whole: number): Paint {
  return STEPS[Math.min(STEPS.length - 1, Math.floor(whole ? (STEPS.length * part) / whole : 0))]!;
}

/** The paint of the i-th kind; always the same object. */
export function kindPaint(i: number): Paint {
  return KIND_PAINTS[i] ?? OTHER;
}

function step(i: number, of: number): Paint {
  return STEPS[of < 2 ? 2 : Math.round((i * (STEPS.length - 1)) / (of - 1))]!;
}
