/**
 * The picture on two canvases: the plan, and animations above it.
 *
 * A change redraws the bays that it touches; only another transformation, layout or style redraws everything. Animation
 * frames are requested only while there is something to draw.
 */
import { framed, type Head } from "../parts/framed";
import type { Drawn } from "../parts/pictures";
import { isDark } from "../shell/theme";
import {
  boxesOf,
  drawBay,
  drawHold,
  drawTag,
  type Eye,
  eraseBay,
  eyeOn,
  type Look,
  lookOf,
  type Scene,
  seen,
} from "./draw";
import type { Bay, Box, Rect } from "./layout";
import type { PodItem, SomeChange } from "./model";
import { CanvasPen, type SvgPen } from "./pen";

const FLIGHT = 700;
/** Maximum number of simultaneous animations. */
const MOST_FLIGHTS = 160;
const CLOSEST = 14;

interface Flight {
  pod: PodItem;
  from: Rect;
  to: Rect;
  node: string;
  start: number;
  leaves: boolean;
}

export interface Hit {
  bay?: Bay;
  pod?: PodItem;
}

export class Canvas {
  eye: Eye = { x: 0, y: 0, scale: 1 };
  #width = 1;
  #height = 1;
  #look!: Look;
  #scene!: Scene;
  #whole = true;
  #fitted = true;
  readonly #dirty = new Set<string>();
  readonly #boxes = new Map<string, Box[]>();
  readonly #flights = new Map<string, Flight>();
  readonly #flying = new Set<string>();
  #frame = 0;
  /** For `base` and `top`; kept because they cache patterns. */
  #pens!: { base: CanvasPen; top: CanvasPen };

  constructor(
    private readonly base: HTMLCanvasElement,
    private readonly top: HTMLCanvasElement,
    private readonly pendingPods: () => DOMRect | undefined,
  ) {}

  get flying(): ReadonlySet<string> {
    return this.#flying;
  }

  /** `moved`: the positions of bays have changed. */
  show(scene: Scene, moved: boolean): void {
    const selects = (this.#scene as Scene | undefined)?.selectedNode !== scene.selectedNode;
    this.#scene = scene;
    this.#boxes.clear();
    if (moved && this.#fitted) this.fit();
    if (selects) this.#reveal();
    this.#all();
  }

  /** Moves the picture if the selected bay is beyond its end, beside the panel. */
  #reveal(): void {
    const bay = this.#scene.layout.byNode.get(this.#scene.selectedNode);
    const beyond = bay ? bay.x + bay.width - this.eye.x - this.#width / this.eye.scale : 0;
    if (bay && beyond > 0) this.eye = { ...this.eye, x: this.eye.x + Math.min(beyond, bay.x - this.eye.x) };
  }

  /** The positions of boxes in bays may have changed. */
  refresh(): void {
    this.#boxes.clear();
    this.#all();
  }

  /** `keeps`: what is drawn stays where it is. */
  resize(width: number, height: number, keeps = false): void {
    if (width === this.#width && height === this.#height) return;
    this.#width = width;
    this.#height = height;
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.base, this.top]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    if (this.#scene && keeps) this.#reveal();
    else if (this.#scene && this.#fitted) this.fit();
    this.#all();
  }

  recolour(): void {
    this.#look = lookOf(this.base, isDark());
    const pen = (canvas: HTMLCanvasElement) => new CanvasPen(canvas.getContext("2d")!, this.#look.dark);
    this.#pens = { base: pen(this.base), top: pen(this.top) };
    this.#all();
  }

  fit(rect?: Rect): void {
    const { layout } = this.#scene;
    this.#fitted = !rect;
    this.eye = eyeOn(
      rect ?? { x: 0, y: 0, width: layout.width, height: layout.height },
      this.#width,
      this.#height,
      rect ? 60 : 14,
    );
    this.#all();
  }

  zoom(factor: number, x = this.#width / 2, y = this.#height / 2): void {
    const { layout } = this.#scene;
    const least = Math.min(
      0.9 * eyeOn({ x: 0, y: 0, width: layout.width, height: layout.height }, this.#width, this.#height).scale,
      1,
    );
    const scale = Math.min(CLOSEST, Math.max(least, this.eye.scale * factor));
    this.eye = {
      scale,
      x: this.eye.x + x / this.eye.scale - x / scale,
      y: this.eye.y + y / this.eye.scale - y / scale,
    };
    this.#fitted = false;
    this.#all();
  }

  pan(x: number, y: number): void {
    this.eye = { ...this.eye, x: this.eye.x - x / this.eye.scale, y: this.eye.y - y / this.eye.scale };
    this.#fitted = false;
    this.#all();
  }

  /** Redraws changed bays, and animates pods that were added, moved or deleted. */
  change(change: SomeChange): void {
    for (const node of change.nodes) this.#soil(node);
    for (const { before, after } of change.pods) {
      if (before?.node === after?.node && before && after) {
        this.#soil(after.node);
        continue;
      }
      this.#fly(before, after);
      if (before) this.#soil(before.node);
      if (after) this.#soil(after.node);
    }
    this.#requestFrame();
  }

  hit(x: number, y: number): Hit {
    const world = { x: this.eye.x + x / this.eye.scale, y: this.eye.y + y / this.eye.scale };
    const bay = this.#scene.layout.bays.find(
      (one) => inside(one, world.x, world.y + 0) || inside({ ...one, y: one.y - 14, height: 14 }, world.x, world.y),
    );
    if (!bay) return {};
    const box = this.#boxesOf(bay.node).find((one) => inside(one, world.x - bay.x, world.y - bay.y));
    return { bay, pod: box?.pod };
  }

  /** The current picture as an SVG file. */
  drawn(head: Head): Drawn {
    return framed(head, this.#width, this.#height, (pen) => this.#drawAll(pen));
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }

  #all(): void {
    this.#whole = true;
    this.#requestFrame();
  }

  #soil(node: string): void {
    if (!node) return;
    this.#boxes.delete(node);
    this.#dirty.add(node);
  }

  #requestFrame(): void {
    if (!this.#frame && this.#scene && this.#look) this.#frame = requestAnimationFrame((now) => this.#draw(now));
  }

  #draw(now: number): void {
    this.#frame = 0;
    const ratio = devicePixelRatio || 1;
    const pen = this.#pens.base;
    const { context } = pen;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.#whole) {
      context.clearRect(0, 0, this.#width, this.#height);
      this.#drawAll(pen);
    } else {
      for (const node of this.#dirty) {
        const bay = this.#scene.layout.byNode.get(node);
        if (!bay || !this.#inSight(bay)) continue;
        eraseBay(pen, bay, this.eye, this.#look);
        drawBay(pen, bay, this.eye, { ...this.#scene, flying: this.#flying }, this.#look, () => this.#boxesOf(node));
      }
      if (this.#dirty.size) this.#drawTags(pen);
    }
    if (this.#whole && this.#scene.layout.bays.length)
      mark(this.#scene.plan.loading ? "stowplan: bays" : "stowplan: plan");
    this.#whole = false;
    this.#dirty.clear();
    this.#drawFlights(now, ratio);
    if (this.#flights.size || this.#dirty.size) this.#requestFrame();
  }

  #drawAll(pen: CanvasPen | SvgPen): void {
    const scene = { ...this.#scene, flying: this.#flying };
    for (const hold of scene.layout.holds) if (this.#inSight(hold)) drawHold(pen, hold, this.eye, scene, this.#look);
    for (const bay of scene.layout.bays)
      if (this.#inSight(bay)) drawBay(pen, bay, this.eye, scene, this.#look, () => this.#boxesOf(bay.node));
    this.#drawTags(pen);
  }

  #drawTags(pen: CanvasPen | SvgPen): void {
    for (const hold of this.#scene.layout.holds)
      if (this.#inSight(hold)) drawTag(pen, hold, this.eye, this.#scene, this.#look);
  }

  #inSight(rect: Rect): boolean {
    const at = seen(rect, this.eye);
    return at.x + at.width > 0 && at.y + at.height > 0 && at.x < this.#width && at.y - 20 < this.#height;
  }

  #boxesOf(node: string): Box[] {
    let found = this.#boxes.get(node);
    if (!found) {
      found = boxesOf(this.#scene, node);
      this.#boxes.set(node, found);
    }
    return found;
  }

  // -- animations ---------------------------------------------------------------------------------------------------

  #fly(before: PodItem | undefined, after: PodItem | undefined): void {
    if (this.#flights.size >= MOST_FLIGHTS || !this.#scene || matchMedia("(prefers-reduced-motion: reduce)").matches)
      return;
    const start = performance.now();
    if (after?.node) {
      const from = before?.node ? this.#rectOf(before) : this.#pendingRect();
      // The box's final position, before the bay is redrawn.
      this.#boxes.delete(after.node);
      const to = this.#rectOf(after);
      if (!from || !to) return;
      this.#flights.set(after.key, { pod: after, from, to, node: after.node, start, leaves: false });
      this.#flying.add(after.key);
    } else if (before?.node) {
      const from = this.#rectOf(before);
      if (from)
        this.#flights.set(before.key, {
          pod: before,
          from,
          to: { ...from, y: from.y - 46 },
          node: "",
          start,
          leaves: true,
        });
    }
  }

  #pendingRect(): Rect | undefined {
    const pendingPods = this.pendingPods();
    const own = this.base.getBoundingClientRect();
    return {
      x: pendingPods ? pendingPods.left - own.left + pendingPods.width / 2 : this.#width / 2,
      y: pendingPods ? pendingPods.top - own.top + 20 : this.#height,
      width: 14,
      height: 10,
    };
  }

  #rectOf(pod: PodItem): Rect | undefined {
    const bay = this.#scene.layout.byNode.get(pod.node);
    if (!bay) return undefined;
    const box = this.#boxesOf(pod.node).find((one) => one.pod.key === pod.key);
    const place = box ? { ...box, x: bay.x + box.x, y: bay.y + box.y } : bay;
    return seen(place, this.eye);
  }

  #drawFlights(now: number, ratio: number): void {
    const pen = this.#pens.top;
    const { context } = pen;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.#width, this.#height);
    for (const [key, flight] of this.#flights) {
      const part = Math.min(1, Math.max(0, (now - flight.start) / FLIGHT));
      const eased = 1 - (1 - part) ** 3;
      const { from, to } = flight;
      const lift = flight.leaves ? 0 : Math.sin(Math.PI * eased) * Math.min(60, Math.abs(to.x - from.x) / 5 + 14);
      const at = {
        x: mix(from.x, to.x, eased),
        y: mix(from.y, to.y, eased) - lift,
        width: Math.max(4, mix(from.width, to.width, eased)),
        height: Math.max(4, mix(from.height, to.height, eased)),
      };
      pen.box(at.x, at.y, at.width, at.height, this.#scene.colours.paint(flight.pod), flight.leaves ? 1 - part : 1);
      context.globalAlpha = flight.leaves ? 1 - part : 1;
      pen.frame(
        at.x,
        at.y,
        at.width,
        at.height,
        flight.leaves ? this.#look.bad : this.#look.ink,
        flight.leaves ? 2 : 1,
      );
      context.globalAlpha = 1;
      if (part === 1) {
        this.#flights.delete(key);
        this.#flying.delete(key);
        if (flight.node) this.#dirty.add(flight.node);
      }
    }
  }
}

/** Performance marks for the first picture with all nodes, and with all pods; read by the benchmark. */
function mark(name: string): void {
  if (!performance.getEntriesByName(name).length) performance.mark(name);
}

function inside(rect: Rect, x: number, y: number): boolean {
  return x >= rect.x && y >= rect.y && x < rect.x + rect.width && y < rect.y + rect.height;
}

function mix(from: number, to: number, part: number): number {
  return from + (to - from) * part;
}
