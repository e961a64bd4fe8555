/** The plan as a picture, with zoom, pan and selection by pointer, wheel, touch and keyboard. */
import { type MutableRef, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { onThemeChange } from "../shell/theme";
import { Canvas } from "./canvas";
import type { ColourBy, Colours } from "./colours";
import type { Scene } from "./draw";
import { grouped, type Layout, layout, type Rect } from "./layout";
import type { PlanModel, PodItem } from "./model";

export interface Settings {
  group: string;
  resource: string;
  colour: ColourBy;
}

interface Props {
  plan: PlanModel;
  settings: Settings;
  colours: Colours;
  /** Increments when nodes are added, deleted or changed, which requires a new layout. */
  nodesVersion: number;
  shown: (pod: PodItem) => boolean;
  selectedNode?: string;
  selectedPod?: string;
  ghosts?: ReadonlyMap<string, readonly PodItem[]>;
  label: string;
  /** The rectangle from which new placements are animated. */
  pendingPods?: () => DOMRect | undefined;
  onSelect: (node: string, pod: string) => void;
  onHover?: (node: string, pod: PodItem | undefined, x: number, y: number) => void;
  handle?: MutableRef<Canvas | null>;
}

const NO_GHOSTS: ReadonlyMap<string, readonly PodItem[]> = new Map();
const NOWHERE: Layout = { width: 1, height: 1, holds: [], bays: [], byNode: new Map() };
const STEP = 1.35;

export function Picture(props: Props) {
  const { plan, settings, colours, shown } = props;
  const box = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const top = useRef<HTMLCanvasElement>(null);
  const canvas = useRef<Canvas | null>(null);
  // Zero until measured.
  const [aspect, setAspect] = useState(0);
  const last = useRef<Layout | null>(null);
  const selects = useRef(false);
  selects.current = Boolean(props.selectedNode || props.selectedPod);
  /** The size of the window when the picture was measured last. */
  const measured = useRef("");
  const measure = useRef(() => {});

  // Before the first paint, which would otherwise lack the picture.
  useLayoutEffect(() => {
    const made = new Canvas(base.current!, top.current!, () => props.pendingPods?.());
    canvas.current = made;
    if (props.handle) props.handle.current = made;
    measure.current = () => {
      const { width, height } = box.current!.getBoundingClientRect();
      const window = `${innerWidth} ${innerHeight}`;
      // The panel beside a selection moves nothing under the pointer: it takes from the end of the picture.
      const keeps = selects.current && measured.current === window;
      measured.current = window;
      // Rounded, so that the layout does not change with each pixel.
      if (!keeps) setAspect(Math.max(0.3, Math.round((4 * width) / Math.max(1, height)) / 4));
      made.resize(Math.max(50, width), Math.max(50, height), keeps);
    };
    measure.current();
    made.recolour();
    const watching = new ResizeObserver(measure.current);
    watching.observe(box.current!);
    const stops = [onThemeChange(() => made.recolour()), () => watching.disconnect(), () => made.stop()];
    return () => stops.forEach((stop) => stop());
  }, []);

  const groups = useMemo(
    () => grouped(plan.nodes.values(), settings.group),
    [plan, settings.group, props.nodesVersion],
  );
  const places = useMemo(() => (aspect ? layout(groups, aspect) : NOWHERE), [groups, aspect]);
  useLayoutEffect(() => {
    // A legend that has grown makes the picture smaller; found out later, everything would be drawn twice.
    measure.current();
    const scene: Scene = {
      plan,
      layout: places,
      colours,
      resource: settings.resource,
      label: settings.group,
      shown,
      selectedNode: props.selectedNode ?? "",
      selectedPod: props.selectedPod ?? "",
      ghosts: props.ghosts ?? NO_GHOSTS,
      flying: canvas.current!.flying,
    };
    canvas.current!.show(scene, last.current !== places);
    last.current = places;
  }, [plan, places, colours, settings.resource, shown, props.selectedNode, props.selectedPod, props.ghosts]);
  useLayoutEffect(
    () => plan.subscribe((change) => (change.whole ? canvas.current!.refresh() : canvas.current!.change(change))),
    [plan],
  );
  usePointers(box, canvas, props);

  const key = (event: KeyboardEvent) => {
    const drawn = canvas.current!;
    const bays = places.bays;
    const index = places.byNode.has(props.selectedNode ?? "")
      ? bays.findIndex((bay) => bay.node === props.selectedNode)
      : -1;
    if (event.key === "+" || event.key === "=") drawn.zoom(STEP);
    else if (event.key === "-") drawn.zoom(1 / STEP);
    else if (event.key === "0") drawn.fit();
    else if (event.key === "Escape") props.onSelect("", "");
    else if (event.key === "Home" && bays[0]) props.onSelect(bays[0].node, "");
    else if (event.key.startsWith("Arrow") && bays[0]) {
      const next = index < 0 ? bays[0] : beside(places, index, event.key);
      props.onSelect(next.node, "");
      if (event.shiftKey) drawn.fit(next);
    } else return;
    event.preventDefault();
  };
  return (
    <div
      class="picture"
      ref={box}
      tabIndex={0}
      role="group"
      aria-roledescription="stow plan"
      aria-label="The plan as a picture. Arrow keys go from node to node, plus and minus zoom, 0 shows everything."
      onKeyDown={key}
    >
      <canvas ref={base} aria-hidden="true" />
      <canvas ref={top} aria-hidden="true" class="above" />
    </div>
  );
}

/** The nearest bay in a direction; the same one at the edge. */
function beside(places: Layout, index: number, key: string) {
  const here = places.bays[index]!;
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] as [
    number,
    number,
  ];
  let best = here;
  let nearest = Infinity;
  for (const bay of places.bays) {
    const along = (bay.x - here.x) * dx + (bay.y - here.y) * dy;
    if (along <= 0) continue;
    const across = Math.abs((bay.x - here.x) * dy) + Math.abs((bay.y - here.y) * dx);
    const far = along + 3 * across;
    if (far < nearest) [best, nearest] = [bay, far];
  }
  return best;
}

function usePointers(box: MutableRef<HTMLDivElement | null>, canvas: MutableRef<Canvas | null>, props: Props): void {
  const now = useRef(props);
  now.current = props;
  useEffect(() => {
    const element = box.current!;
    const down = new Map<number, { x: number; y: number }>();
    let travelled = 0;
    const local = (event: MouseEvent) => {
      const own = element.getBoundingClientRect();
      return { x: event.clientX - own.left, y: event.clientY - own.top };
    };
    const press = (event: PointerEvent) => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      down.set(event.pointerId, local(event));
      travelled = 0;
    };
    const move = (event: PointerEvent) => {
      const at = local(event);
      const before = down.get(event.pointerId);
      if (!before) {
        const { bay, pod } = canvas.current!.hit(at.x, at.y);
        now.current.onHover?.(bay?.node ?? "", pod, at.x, at.y);
        return;
      }
      travelled += Math.hypot(at.x - before.x, at.y - before.y);
      const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
      if (other)
        canvas.current!.zoom(
          far(at, other) / Math.max(1, far(before, other)),
          (at.x + other.x) / 2,
          (at.y + other.y) / 2,
        );
      else if (travelled > 4) canvas.current!.pan(at.x - before.x, at.y - before.y);
      down.set(event.pointerId, at);
    };
    const release = (event: PointerEvent) => {
      const at = down.get(event.pointerId);
      down.delete(event.pointerId);
      if (!at || travelled > 4 || event.type === "pointercancel") return;
      const { bay, pod } = canvas.current!.hit(at.x, at.y);
      now.current.onSelect(bay?.node ?? "", pod?.key ?? "");
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const at = local(event);
      canvas.current!.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), at.x, at.y);
    };
    const twice = (event: MouseEvent) => {
      const at = local(event);
      const { bay } = canvas.current!.hit(at.x, at.y);
      if (bay) canvas.current!.fit(bay as Rect);
      else canvas.current!.fit();
    };
    const leave = () => now.current.onHover?.("", undefined, 0, 0);
    const listening: [string, EventListener][] = [
      ["pointerdown", press as EventListener],
      ["pointermove", move as EventListener],
      ["pointerup", release as EventListener],
      ["pointercancel", release as EventListener],
      ["pointerleave", leave],
      ["dblclick", twice as EventListener],
    ];
    for (const [name, listener] of listening) element.addEventListener(name, listener);
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      for (const [name, listener] of listening) element.removeEventListener(name, listener);
      element.removeEventListener("wheel", wheel);
    };
  }, []);
}

function far(one: { x: number; y: number }, other: { x: number; y: number }): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}
