/** Draws holds, bays and boxes with a pen, in the detail that the scale allows. */
import { CLOSED, type Colours, type Paint } from "./colours";
import { type Bay, type Box, closed, type Hold, type Layout, need, type Rect, stowed } from "./layout";
import { isBroken, type NodeItem, type PlanModel, type PodItem } from "./model";
import type { Pen } from "./pen";

/** The transformation from world coordinates to the picture. */
export interface Eye {
  /** World coordinates of the picture's top left corner. */
  x: number;
  y: number;
  scale: number;
}

export interface Look {
  dark: boolean;
  ink: string;
  ink2: string;
  ink3: string;
  line: string;
  line2: string;
  sheet: string;
  hull: string;
  sea: string;
  signal: string;
  bad: string;
}

const VARIABLES: Record<Exclude<keyof Look, "dark">, string> = {
  ink: "--ink",
  ink2: "--ink-2",
  ink3: "--ink-3",
  line: "--line",
  line2: "--line-2",
  sheet: "--sheet",
  hull: "--hull",
  sea: "--sea",
  signal: "--signal",
  bad: "--bad",
};

/** The colours, read from CSS. */
export function lookOf(element: Element, dark: boolean): Look {
  const style = getComputedStyle(element);
  const found = Object.entries(VARIABLES).map(([name, variable]) => [name, style.getPropertyValue(variable).trim()]);
  return { dark, ...(Object.fromEntries(found) as Omit<Look, "dark">) };
}

export interface Scene {
  plan: PlanModel;
  layout: Layout;
  colours: Colours;
  resource: string;
  /** The label that groups nodes, for the title of those without it. */
  label: string;
  /** Pods that are drawn in full; the others are faint. */
  shown: (pod: PodItem) => boolean;
  selectedNode: string;
  selectedPod: string;
  /** Pods that would be on a node: drawn there as outlines. */
  ghosts: ReadonlyMap<string, readonly PodItem[]>;
  /** Pods that are being animated. */
  flying: ReadonlySet<string>;
}

/** Below this width in pixels a bay shows layers of colours in place of boxes. */
const BOXES_FROM = 30;
const FAINT = 0.16;
const TAG_HEIGHT = 17;
const TAG_FROM = 44;

export function boxesOf(scene: Scene, node: string): Box[] {
  const ghosts = scene.ghosts.get(node) ?? [];
  const pods = [...scene.plan.podsOn(node), ...ghosts];
  return stowed(pods, capacity(scene, node), scene.resource);
}

export function capacity(scene: Scene, node: string): number {
  return scene.plan.nodes.get(node)?.allocatable[scene.resource] ?? 0;
}

export function drawHold(pen: Pen, hold: Hold, eye: Eye, scene: Scene, look: Look): void {
  const at = seen(hold, eye);
  const radius = Math.min(14, 12 * eye.scale + 2);
  pen.rect(at.x, at.y, at.width, at.height, look.hull, radius);
  pen.frame(at.x, at.y, at.width, at.height, look.line2, 1, radius);
  if (isSmall(eye)) return;
  const size = Math.min(15, Math.max(9, 14 * eye.scale));
  const name = nameOf(hold, scene);
  const room = at.width - 2 * 13 * eye.scale;
  const number = `${hold.bays}`;
  pen.text(at.x + 13 * eye.scale, at.y + 19 * eye.scale, name, size, look.ink, {
    bold: true,
    room: room - size * (number.length + 1),
  });
  pen.text(
    at.x + at.width - 13 * eye.scale - size * 0.58 * number.length,
    at.y + 19 * eye.scale,
    number,
    size,
    look.ink3,
  );
}

/** Draws the names of holds over their bays if titles have no room and there are several holds. */
export function drawTag(pen: Pen, hold: Hold, eye: Eye, scene: Scene, look: Look): void {
  const at = seen(hold, eye);
  if (!isSmall(eye) || scene.layout.holds.length < 2 || at.width < TAG_FROM || at.height < 2 * TAG_HEIGHT) return;
  const name = `${nameOf(hold, scene)}  ${hold.bays}`;
  const width = Math.min(at.width - 4, 14 + 6.6 * name.length);
  pen.rect(at.x + 2, at.y + 2, width, TAG_HEIGHT, look.sheet, 4);
  pen.frame(at.x + 2, at.y + 2, width, TAG_HEIGHT, look.line2, 1, 4);
  pen.text(at.x + 8, at.y + 14, name, 11, look.ink, { bold: true, room: width - 10 });
}

/** Whether titles of holds are too small to read. */
function isSmall(eye: Eye): boolean {
  return 27 * eye.scale < 8;
}

function nameOf(hold: Hold, scene: Scene): string {
  return hold.name || (scene.label ? `without ${scene.label}` : "all nodes");
}

/** Erases a bay: drawing over it would make its text bolder. */
export function eraseBay(pen: Pen, bay: Bay, eye: Eye, look: Look): void {
  const at = seen(bay, eye);
  const label = 15 * eye.scale;
  pen.rect(at.x - 4, at.y - label, at.width + 8, at.height + label + 4, look.hull);
}

export function drawBay(pen: Pen, bay: Bay, eye: Eye, scene: Scene, look: Look, boxes: () => Box[]): void {
  const at = seen(bay, eye);
  const node = scene.plan.nodes.get(bay.node);
  // Not like an empty bay: it has nothing of what is shown.
  const lacks = capacity(scene, bay.node) <= 0;
  pen.rect(at.x, at.y, at.width, at.height, lacks ? look.hull : look.sheet);
  if (lacks && at.height > 2 * TAG_HEIGHT)
    pen.text(at.x + 6, at.y + 16, `no ${scene.resource}`, 11, look.ink3, { room: at.width - 12 });
  if (at.width < BOXES_FROM) drawLayers(pen, bay.node, at, scene);
  else for (const box of boxes()) drawBox(pen, box, at, eye.scale, scene, look);
  if (node?.freeDevices) {
    const part = closed(node, scene.plan.podsOn(bay.node), scene.resource) / capacity(scene, bay.node);
    if (part > 0) pen.box(at.x, at.y, at.width, at.height * part, CLOSED, 1);
  }
  const chosen = scene.selectedNode === bay.node;
  if (at.width > 14 || chosen) {
    const cordoned = node?.unschedulable ?? false;
    const broken = node !== undefined && isBroken(node);
    pen.frame(
      at.x,
      at.y,
      at.width,
      at.height,
      chosen ? look.sea : broken ? look.bad : cordoned ? look.signal : look.line2,
      chosen ? 2.5 : 1,
      0,
      cordoned || broken,
    );
  }
  // A candidate's box can be too small to see, so its bay is framed.
  if (scene.ghosts.has(bay.node)) pen.frame(at.x - 2, at.y - 2, at.width + 4, at.height + 4, look.signal, 2.5, 3);
  if (15 * eye.scale >= 8.5) {
    const size = Math.min(13, 11 * eye.scale);
    pen.text(
      at.x + 1,
      at.y - 4 * eye.scale,
      (node ? markOf(node) : "") + bay.node,
      size,
      chosen ? look.sea : look.ink2,
      {
        room: at.width,
        bold: chosen,
      },
    );
  }
}

function markOf(node: NodeItem): string {
  return isBroken(node) ? "✕ " : node.unschedulable ? "⊘ " : node.taints.length ? "◆ " : "";
}

function drawBox(pen: Pen, box: Box, bay: Rect, scale: number, scene: Scene, look: Look): void {
  const gap = scale > 0.6 ? 0.5 : 0;
  const x = bay.x + box.x * scale + gap;
  const y = bay.y + box.y * scale + gap;
  const width = Math.max(0.8, box.width * scale - 2 * gap);
  const height = Math.max(0.8, box.height * scale - 2 * gap);
  const { pod } = box;
  const isGhost = scene.ghosts.size > 0 && pod.node !== "" && scene.ghosts.get(pod.node)?.includes(pod) === true;
  const alpha = scene.flying.has(pod.key) ? 0.1 : scene.shown(pod) ? 1 : FAINT;
  const paint = scene.colours.paint(pod);
  pen.box(x, y, width, height, paint, pod.terminating || isGhost ? 0.3 * alpha : alpha);
  if (pod.terminating || isGhost)
    pen.frame(x + 0.5, y + 0.5, width - 1, height - 1, isGhost ? look.signal : look.bad, 1.5, 0, true);
  if (scene.selectedPod === pod.key) pen.frame(x, y, width, height, look.ink, 2.5);
  if (alpha === 1 && width > 46 && height > 14) {
    const size = Math.min(12, height * 0.55, 6 + width / 18);
    const halo = paint.pattern === "plain" ? undefined : paint[look.dark ? "dark" : "light"];
    pen.text(x + 4, y + height / 2 + size * 0.36, pod.name, size, textOn(paint, look), { room: width - 7, halo });
  }
}

/** The bay's level by kind, for scales at which boxes are too small. Layers are at least a pixel high. */
function drawLayers(pen: Pen, node: string, at: Rect, scene: Scene): void {
  const pods = scene.plan.podsOn(node);
  const whole = capacity(scene, node);
  if (!pods.length || whole <= 0) return;
  const { colours, resource, shown } = scene;
  const amounts = new Float64Array(colours.paints.length);
  let all = 0;
  for (const pod of pods) {
    const amount = need(pod, resource);
    all += amount;
    if (amount && shown(pod)) amounts[colours.place(pod)]! += amount;
  }
  const layers: number[] = [];
  for (let place = 0; place < amounts.length; place++) if (amounts[place]) layers.push(place);
  layers.sort((one, other) => amounts[other]! - amounts[one]! || one - other);
  const scale = at.height / Math.max(whole, all);
  const bottom = Math.round(at.y + at.height);
  let level = 0;
  let below = bottom;
  for (const place of layers) {
    level += amounts[place]! * scale;
    const top = Math.min(bottom - 1, Math.round(bottom - level));
    if (top < below) pen.box(at.x, top, at.width, below - top, colours.paints[place]!, 1);
    below = top;
  }
}

/** The text colour with the higher contrast. */
export function textOn(paint: Paint, look: Look): string {
  const colour = paint[look.dark ? "dark" : "light"];
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(
    (from) => Number.parseInt(colour.slice(from, from + 2), 16) / 255,
  );
  const light = 0.2126 * red ** 2.2 + 0.7152 * green ** 2.2 + 0.0722 * blue ** 2.2;
  return light > 0.2 ? "#0d1a26" : "#ffffff";
}

export function seen(rect: Rect, eye: Eye): Rect {
  return {
    x: (rect.x - eye.x) * eye.scale,
    y: (rect.y - eye.y) * eye.scale,
    width: rect.width * eye.scale,
    height: rect.height * eye.scale,
  };
}

/** The transformation that centres a rectangle in a picture. */
export function eyeOn(rect: Rect, width: number, height: number, margin = 14): Eye {
  const scale = Math.max(0.02, Math.min((width - 2 * margin) / rect.width, (height - 2 * margin) / rect.height, 6));
  return { scale, x: rect.x - (width / scale - rect.width) / 2, y: rect.y - (height / scale - rect.height) / 2 };
}
