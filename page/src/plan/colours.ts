/**
 * What colour a box has, and what it means. Kinds have one of eight colours that colour-blind people can tell apart,
 * then the same colours hatched; who is beyond those shares one. Amounts have a scale from light to dark.
 */
import { grouped, sortedNames } from "../parts/format";
import type { PodItem } from "./model";

export type ColourBy = "workload" | "namespace" | "priority" | "age";
export const COLOURS_BY: Record<ColourBy, string> = { workload: "Workload", namespace: "Namespace", priority: "Priority", age: "Age" };

export type Pattern = "plain" | "stripes" | "dots";
export interface Paint {
  light: string;
  dark: string;
  pattern: Pattern;
}
export interface LegendEntry {
  name: string;
  paint: Paint;
  pods: number;
}

// After Okabe and Ito, with lightness evened out so that a label can be read on each by day and by night.
const KINDS: [string, string][] = [
  ["#2f7fb5", "#4a9bd1"], ["#e08a00", "#e9a23b"], ["#16896a", "#35ab8a"], ["#c77bb0", "#d191be"],
  ["#c9512f", "#e0704f"], ["#7fbcd6", "#8ccbe6"], ["#d3bd2a", "#e3d04f"], ["#6a6fb3", "#8d92d6"],
];
const PATTERNS: Pattern[] = ["plain", "stripes", "dots"];
const KIND_PAINTS = PATTERNS.flatMap((pattern) => KINDS.map(([light, dark]): Paint => ({ light, dark, pattern })));
const OTHER: Paint = { light: "#a9adb0", dark: "#5c6a77", pattern: "plain" };
const SCALE: [string, string][] = [
  ["#d7e6ee", "#234257"], ["#a5c8dc", "#2f6383"], ["#6fa5c4", "#4288b0"], ["#3a7ca5", "#6db2d8"], ["#15507a", "#b5e0f7"],
];
const STEPS = SCALE.map(([light, dark]): Paint => ({ light, dark, pattern: "plain" }));
const AGES: [number, string][] = [
  [300, "under 5m"], [3600, "under 1h"], [86400, "under 1d"], [7 * 86400, "under 7d"], [Infinity, "older"],
];

export class Colours {
  readonly legend: LegendEntry[];
  /** All that there are; many kinds can share one. */
  readonly paints: Paint[] = [OTHER];
  /** Of a kind: the place of its paint in `paints`. */
  readonly #places = new Map<string, number>();
  readonly #nameOf: (pod: PodItem) => string;

  /** Of kinds: the place of each in the order of colours. */
  readonly #order = new Map<string, number>();

  /** `now`: milliseconds since the epoch, for ages. `before`: kinds that had a colour there keep it. */
  constructor(
    readonly by: ColourBy,
    pods: Iterable<PodItem>,
    now: number,
    before?: Colours,
  ) {
    this.#nameOf = NAMERS[by](now);
    const counts = new Map<string, number>();
    const priorities = new Map<string, number>();
    for (const pod of pods) {
      const name = this.#nameOf(pod);
      counts.set(name, (counts.get(name) ?? 0) + 1);
      if (by === "priority") priorities.set(name, pod.priority);
    }
    const names = ordered(by, counts, priorities);
    this.#rank(names, before?.by === by ? before.#order : new Map());
    this.legend = names.map((name, i) => {
      const paint = by === "priority" || by === "age" ? stepOf(by, name, i, names.length) : kindPaint(this.#order.get(name)!);
      let place = this.paints.indexOf(paint);
      if (place < 0) place = this.paints.push(paint) - 1;
      this.#places.set(name, place);
      return { name, paint, pods: counts.get(name)! };
    });
  }

  /** What has a colour keeps it; the others get the first that are free, in their order. */
  #rank(names: string[], before: ReadonlyMap<string, number>): void {
    for (const name of names) if (before.has(name)) this.#order.set(name, before.get(name)!);
    const taken = new Set(this.#order.values());
    let free = 0;
    for (const name of names) {
      if (this.#order.has(name)) continue;
      while (taken.has(free)) free++;
      this.#order.set(name, free++);
    }
  }

  name(pod: PodItem): string {
    return this.#nameOf(pod);
  }

  /** A kind that came after the legend was made has the colour of the others. */
  paint(pod: PodItem): Paint {
    return this.paints[this.place(pod)]!;
  }

  /** Where its paint is among `paints`. */
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

function ordered(by: ColourBy, counts: Map<string, number>, priorities: Map<string, number>): string[] {
  const names = [...counts.keys()];
  if (by === "priority") return names.sort((one, other) => priorities.get(one)! - priorities.get(other)!);
  if (by === "age") return AGES.map(([, name]) => name).filter((name) => counts.has(name));
  // The largest kinds get the colours that differ most; among equals the name decides, so that it stays.
  return sortedNames(names).sort((one, other) => counts.get(other)! - counts.get(one)!);
}

function stepOf(by: "priority" | "age", name: string, i: number, of: number): Paint {
  return by === "age" ? step(AGES.findIndex(([, age]) => age === name), AGES.length) : step(i, of);
}

/** The colour of the i-th kind of anything; the same object each time. */
export function kindPaint(i: number): Paint {
  return KIND_PAINTS[i] ?? OTHER;
}

function step(i: number, of: number): Paint {
  return STEPS[of < 2 ? 2 : Math.round((i * (STEPS.length - 1)) / (of - 1))]!;
}
