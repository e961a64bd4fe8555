/** A chart with axes, a legend that chooses layers, a tooltip, zoom by dragging, and buttons that save it. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { PictureButtons } from "../parts/pictures";
import type { Cell } from "../parts/save";
import { CsvButton } from "../parts/table";
import type { ChartRecord, LayerRecord } from "../protocol";
import { Axes, Layers, layerStyle } from "./layers";
import { indexAt, type Plot, plotOf, type Range } from "./plot";
import { drawn } from "./saved";
import { valueText } from "./scale";

const HEIGHT = 260;
/** Pixels from which a press is a drag. */
const DRAG = 6;

interface Props {
  title: string;
  caption?: string;
  chart: ChartRecord;
  /** The name of saved files without extension. */
  file: string;
  height?: number;
  /** What is beside the title. */
  children?: ComponentChildren;
  /** What it shows, in words. */
  said?: string;
  /** A moment that is marked, and what a click does. */
  now?: number;
  onPick?: (x: number) => void;
}

export function Chart({ title, caption = "", chart, file, height = HEIGHT, children, said, now, onPick }: Props) {
  const [width, box] = useWidth();
  const [hidden, hide] = useState<ReadonlySet<string>>(new Set());
  const [zoom, setZoom] = useState<Range>();
  const [pointer, setPointer] = useState<number>();
  const pressed = useRef<number>();
  const layers = chart.layers.filter(({ name = "" }) => !hidden.has(name));
  const plot = plotOf(chart, layers, width, height, zoom);
  const named = chart.layers.filter(({ name }) => name);
  const overTime = chart.layers.some(({ kind }) => kind === "line" || kind === "step" || kind === "area");
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    if (next.size < named.length) hide(next);
  };
  const at = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
    return Math.max(plot.left, Math.min(plot.right, left));
  };
  const released = (end: number) => {
    const start = pressed.current;
    pressed.current = undefined;
    if (start === undefined) return;
    const [from, to] = [Math.min(start, end), Math.max(start, end)].map(plot.x.value) as Range;
    if (Math.abs(end - start) >= DRAG) setZoom([from, to]);
    else onPick?.(from);
  };
  return (
    <figure class="chart" aria-label={title}>
      <figcaption>
        <h2>{title}</h2>
        {children}
        <span class="buttons">
          {zoom && (
            <button type="button" class="small" onClick={() => setZoom(undefined)}>
              Whole range
            </button>
          )}
          <PictureButtons
            file={file}
            of={title}
            small
            draw={() => drawn(box.current!.querySelector("svg")!, title, caption, chart)}
          />
          <CsvButton file={file} of={title} rows={() => rowsOf(chart)} />
        </span>
        {caption && <p>{caption}</p>}
      </figcaption>
      {named.length > 1 && (
        <ul class="keys">
          {named.map((layer) => (
            <li key={layer.name}>
              <button
                type="button"
                class="quiet"
                aria-pressed={!hidden.has(layer.name!)}
                onClick={() => toggle(layer.name!)}
              >
                <Key layer={layer} /> {layer.name}
              </button>
            </li>
          ))}
        </ul>
      )}
      {chart.layers.some(({ kind }) => kind === "cells") && (
        <p class="keys muted">
          0 % <span class="painted gradient" style={layerStyle(chart.layers[0]!)} /> 100 %
        </p>
      )}
      <div class="drawing" ref={box}>
        <svg
          width={width}
          height={plot.height}
          role="img"
          aria-label={said ?? described(title, chart)}
          onPointerMove={(event) => setPointer(at(event))}
          onPointerLeave={() => setPointer(undefined)}
          onPointerDown={(event) => {
            if (overTime) pressed.current = at(event);
          }}
          onPointerUp={(event) => released(at(event))}
        >
          <Axes chart={chart} plot={plot} />
          {/* Values outside of the zoomed range are cut off; whole charts need no clip. */}
          <svg
            x={zoom ? plot.left : 0}
            width={zoom ? plot.right - plot.left : width}
            height={plot.height}
            viewBox={`${zoom ? plot.left : 0} 0 ${zoom ? plot.right - plot.left : width} ${plot.height}`}
          >
            <Layers chart={chart} layers={layers} plot={plot} />
            {chart.marks?.map(([x, name], i) => (
              <g key={i} class="event">
                <path d={`M${plot.x.at(x)} ${plot.top}V${plot.bottom}`} />
                <text x={plot.x.at(x) + 4} y={plot.top + 11 + (i % 3) * 13}>
                  {name}
                </text>
              </g>
            ))}
            {now !== undefined && <path class="now" d={`M${plot.x.at(now)} ${plot.top}V${plot.bottom}`} />}
          </svg>
          {overTime && pointer !== undefined && <path class="crosshair" d={`M${pointer} ${plot.top}V${plot.bottom}`} />}
        </svg>
        {overTime && pointer !== undefined && <Tip chart={chart} layers={layers} plot={plot} at={pointer} />}
      </div>
    </figure>
  );
}

export function Key({ layer }: { layer: LayerRecord }) {
  const kind = layer.kind === "dot" ? (layer.marked ? "ring" : "disc") : layer.kind === "area" ? "block" : "stroke";
  return (
    <span
      class={`key painted ${kind}`}
      data-dashed={layer.dashed || undefined}
      style={layerStyle(layer)}
      aria-hidden="true"
    />
  );
}

/** The values of all layers at the pointer. */
function Tip({
  chart,
  layers,
  plot,
  at,
}: {
  chart: ChartRecord;
  layers: readonly LayerRecord[];
  plot: Plot;
  at: number;
}) {
  const x = plot.x.value(at);
  const far = at > (plot.left + plot.right) / 2;
  return (
    <div class="tip" style={far ? { right: `calc(100% - ${at - 24}px)`, top: "0" } : { left: `${at}px`, top: "0" }}>
      <strong>{valueText(chart.x?.unit ?? "", x)}</strong>
      {layers
        .filter(({ y }) => y?.length)
        .map((layer) => (
          <div key={layer.name}>
            <Key layer={layer} /> {layer.name} {valueText(chart.y?.unit ?? "", layer.y![indexAt(layer.x!, x)]!)}
          </div>
        ))}
    </div>
  );
}

/** The width of the element, which has to be measured: text has the same size at any width. */
function useWidth(): [number, { current: HTMLDivElement | null }] {
  const [width, set] = useState(720);
  const box = useRef<HTMLDivElement>(null);
  // Before the first paint, which would otherwise be wider than a phone.
  useLayoutEffect(() => {
    const measure = () => set(Math.max(200, box.current!.clientWidth));
    measure();
    const watching = new ResizeObserver(measure);
    watching.observe(box.current!);
    return () => watching.disconnect();
  }, []);
  return [width, box];
}

function described(title: string, { bands = [], layers }: ChartRecord): string {
  const [first] = layers;
  const rows = bands.length && first?.labels ? bands.map((name, i) => `${name} ${first.labels![i]}`) : [];
  return rows.length ? `${title}: ${rows.join(", ")}` : title;
}

/** A row per value. */
function rowsOf({ x: across, y: up, bands = [], layers }: ChartRecord): Cell[][] {
  const rows = layers.flatMap(({ name = "", x = [], y = [], low = [], high = [], labels = [], rows: cells }) =>
    cells
      ? cells.flatMap((values, i) => values.map((value, at): Cell[] => [bands[i]!, x[at]!, value ?? "", "", ""]))
      : x.map((one, i): Cell[] => [bands[i] ?? labels[i] ?? name, one, y[i] ?? "", low[i] ?? "", high[i] ?? ""]),
  );
  return [["name", across?.name || "x", up?.name || "y", "low", "high"], ...rows];
}
