/**
 * The layout: holds (nodes that share a label's value), bays (nodes) in them, boxes (pods) in those.
 *
 * World coordinates: a bay is always BAY_WIDTH by BAY_HEIGHT. Boxes are stacked from the bottom in rows, each as large
 * as the pod's share of the node's allocatable, so that the level shows utilization. Positions depend only on names and
 * amounts, so that nothing moves without a change.
 */
import { byName, sortedNames } from "../parts/format";
import type { NodeItem, PodItem } from "./model";

export const BAY_WIDTH = 100;
export const BAY_HEIGHT = 66;
const LABEL = 15;
const GAP = 9;
const MARGIN = 13;
const TITLE = 27;
const BETWEEN = 22;
/** The minimum size of a box, as a share of its bay; also that of pods without requests. */
const LEAST = 1 / 500;

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Bay extends Rect {
  node: string;
  hold: number;
}
export interface Hold extends Rect {
  name: string;
  bays: number;
}
export interface Layout {
  width: number;
  height: number;
  holds: Hold[];
  bays: Bay[];
  byNode: Map<string, Bay>;
}
export interface Box extends Rect {
  pod: PodItem;
}

/** Nodes by the value of a label, "" for those without it; one group if no label is given. */
export function grouped(nodes: Iterable<NodeItem>, label: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const node of nodes) {
    const value = label ? (node.labels[label] ?? "") : "";
    const there = found.get(value);
    if (there) there.push(node.name);
    else found.set(value, [node.name]);
  }
  // Nodes without the label come last.
  const values = [...sortedNames([...found.keys()].filter(Boolean)), ...(found.has("") ? [""] : [])];
  return new Map(values.map((value) => [value, sortedNames(found.get(value)!)]));
}

/** The arrangement with the largest scale for a picture of this aspect ratio. */
export function layout(groups: Map<string, string[]>, aspect: number): Layout {
  const sizes = [...groups.values()].map((names) => names.length);
  let best: Arranged | undefined;
  for (const columns of candidates(sizes)) {
    const found = arranged(sizes, columns, aspect);
    if (!best || found.waste < best.waste) best = found;
  }
  const holds: Hold[] = [];
  const bays: Bay[] = [];
  [...groups].forEach(([name, nodes], hold) => {
    const place = best!.places[hold]!;
    holds.push({ ...place, name, bays: nodes.length });
    nodes.forEach((node, i) => {
      bays.push({
        node,
        hold,
        x: place.x + MARGIN + (i % place.columns) * (BAY_WIDTH + GAP),
        y: place.y + TITLE + LABEL + Math.floor(i / place.columns) * (BAY_HEIGHT + LABEL + GAP),
        width: BAY_WIDTH,
        height: BAY_HEIGHT,
      });
    });
  });
  return {
    width: best?.width ?? 1,
    height: best?.height ?? 1,
    holds,
    bays,
    byNode: new Map(bays.map((bay) => [bay.node, bay])),
  };
}

interface Arranged {
  waste: number;
  width: number;
  height: number;
  places: (Rect & { columns: number })[];
}

/** Pairs: columns of a whole row, and how wide a hold is for its height. */
function candidates(sizes: number[]): [number, number][] {
  const all = sizes.reduce((sum, size) => sum + size, 0);
  const found: [number, number][] = [];
  for (let columns = 1; columns < 2 * all + 2; columns = Math.max(columns + 1, Math.round(columns * 1.12))) {
    for (const shape of sizes.length > 1 ? [0.6, 1.2, 2.4, Infinity] : [Infinity]) found.push([columns, shape]);
  }
  return found;
}

function arranged(sizes: number[], [columns, shape]: [number, number], aspect: number): Arranged {
  const limit = 2 * MARGIN + columns * (BAY_WIDTH + GAP) + BETWEEN;
  const places: Arranged["places"] = [];
  let x = 0;
  let y = 0;
  let row = 0;
  let width = 0;
  for (const size of sizes) {
    const own = Math.max(1, Math.min(size, columns, Math.ceil(Math.sqrt(size * shape))));
    const rows = Math.ceil(size / own);
    const wide = 2 * MARGIN + own * (BAY_WIDTH + GAP) - GAP;
    const high = TITLE + rows * (BAY_HEIGHT + LABEL + GAP) + MARGIN - GAP;
    if (x > 0 && x + wide > limit) {
      x = 0;
      y += row + BETWEEN;
      row = 0;
    }
    places.push({ x, y, width: wide, height: high, columns: own });
    x += wide + BETWEEN;
    row = Math.max(row, high);
    width = Math.max(width, x - BETWEEN);
  }
  const height = y + row;
  // The area of a picture of this aspect ratio that shows everything.
  return { waste: Math.max(width / aspect, height) * Math.max(width, height * aspect), width, height, places };
}

/** The pods of a bay as boxes, the largest at the bottom. Relative to the bay. */
export function stowed(pods: Iterable<PodItem>, capacity: number, resource: string): Box[] {
  const sized = [...pods].map((pod) => ({
    pod,
    share: Math.max(LEAST, capacity > 0 ? need(pod, resource) / capacity : LEAST),
  }));
  sized.sort((one, other) => other.share - one.share || byName(one.pod.key, other.pod.key));
  const sum = sized.reduce((total, one) => total + one.share, 0);
  // Requests can exceed the node's allocatable: its boxes are scaled down.
  const scale = (BAY_WIDTH * BAY_HEIGHT) / Math.max(1, sum);
  const boxes: Box[] = [];
  let bottom = BAY_HEIGHT;
  for (let at = 0; at < sized.length; ) {
    const end = rowEnd(sized, at, scale);
    let area = 0;
    for (let i = at; i < end; i++) area += sized[i]!.share * scale;
    const height = area / BAY_WIDTH;
    bottom -= height;
    let x = 0;
    for (; at < end; at++) {
      const width = (sized[at]!.share * scale) / height;
      boxes.push({ pod: sized[at]!.pod, x, y: bottom, width, height });
      x += width;
    }
  }
  return boxes;
}

/** The number of boxes for which the row's last box is closest to a square. */
function rowEnd(sized: { share: number }[], at: number, scale: number): number {
  let area = 0;
  let worst = Infinity;
  for (let end = at; end < sized.length; end++) {
    area += sized[end]!.share * scale;
    const height = area / BAY_WIDTH;
    const width = (sized[end]!.share * scale) / height;
    const oblong = Math.max(width / height, height / width);
    if (oblong > worst) return end;
    worst = oblong;
  }
  return sized.length;
}

export function need(pod: PodItem, resource: string): number {
  return resource === "pods" ? 1 : (pod.requests[resource] ?? 0);
}

/** Of a node's devices, those that neither its pods hold nor others can have. */
export function closed(node: NodeItem, pods: Iterable<PodItem>, resource: string): number {
  const free = node.freeDevices?.[resource];
  return free === undefined ? 0 : Math.max(0, node.allocatable[resource]! - free - used(pods, resource));
}

/** The sum of the requests of a node's pods. */
export function used(pods: Iterable<PodItem>, resource: string): number {
  let sum = 0;
  for (const pod of pods) sum += need(pod, resource);
  return sum;
}
