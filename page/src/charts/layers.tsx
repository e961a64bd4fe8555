/** The layers of a chart as SVG: lines, areas, bars, dots with their intervals, and cells of a heat map. */
import { kindPaint } from "../plan/colours";
import type { ChartRecord, LayerRecord } from "../protocol";
import { type Plot, stacked } from "./plot";
import { tickText } from "./scale";

const BAR = 14;
const RADIUS = 5;

export function layerStyle({ colour = 0 }: LayerRecord): Record<string, string> {
  const { light, dark } = kindPaint(colour);
  return { "--light": light, "--dark": dark };
}

export function Axes({ chart, plot }: { chart: ChartRecord; plot: Plot }) {
  const { x, y, left, right, top, bottom, height } = plot;
  return (
    <g class="axes">
      {!plot.band &&
        y.ticks.map((tick) => (
          <g key={tick}>
            <path class="grid" d={`M${left} ${y.at(tick)}H${right}`} />
            <text class="value" x={left - 8} y={y.at(tick) + 4}>
              {tickText(chart.y?.unit ?? "", tick)}
            </text>
          </g>
        ))}
      {x.ticks.map((tick) => (
        <g key={tick}>
          <path class={tick === 0 ? "zero" : "grid"} d={`M${x.at(tick)} ${top}V${bottom + 4}`} />
          <text class="across" x={x.at(tick)} y={bottom + 19}>
            {tickText(chart.x?.unit ?? "", tick)}
          </text>
        </g>
      ))}
      <text class="axis" x={right} y={height - 5}>
        {chart.x?.name}
      </text>
      <text class="axis-up" x={0} y={11}>
        {chart.y?.name}
      </text>
    </g>
  );
}

export function Layers({ chart, layers, plot }: { chart: ChartRecord; layers: readonly LayerRecord[]; plot: Plot }) {
  return (
    <>
      {stacked(layers).map(({ layer, bottom, top }) => (
        <path
          key={layer.name}
          class="area painted"
          style={layerStyle(layer)}
          d={`${pathOf(layer.x, top, plot)}${pathOf([...(layer.x ?? [])].reverse(), bottom.reverse(), plot).replace("M", "L")}Z`}
        />
      ))}
      {layers.map((layer) => (
        <g key={layer.name} class="painted" style={layerStyle(layer)}>
          <One chart={chart} layer={layer} plot={plot} />
        </g>
      ))}
    </>
  );
}

function One({ chart, layer, plot }: { chart: ChartRecord; layer: LayerRecord; plot: Plot }) {
  switch (layer.kind) {
    case "line":
    case "step":
      return (
        <path
          class="line"
          data-dashed={layer.dashed || undefined}
          d={pathOf(layer.x, layer.y, plot, layer.kind === "step")}
        />
      );
    case "bar":
      return <Bars chart={chart} layer={layer} plot={plot} />;
    case "dot":
      return <Dots chart={chart} layer={layer} plot={plot} />;
    case "cells":
      return <Cells chart={chart} layer={layer} plot={plot} />;
    default:
      return null;
  }
}

function pathOf(xs: readonly number[] = [], ys: readonly number[] = [], { x, y, right }: Plot, steps = false): string {
  const points = xs.map((one, i) =>
    i && steps ? `H${x.at(one)}V${y.at(ys[i]!)}` : `${i ? "L" : "M"}${x.at(one)} ${y.at(ys[i]!)}`,
  );
  return points.join("") + (steps && xs.length ? `H${right}` : "");
}

/** A name above each bar, so that long names fit. */
function Bars({ chart, layer, plot }: { chart: ChartRecord; layer: LayerRecord; plot: Plot }) {
  return (
    <>
      {layer.x?.map((value, i) => (
        <g key={i}>
          <Named chart={chart} layer={layer} plot={plot} i={i} />
          <rect
            class="bar"
            x={plot.left}
            y={plot.top + i * plot.band + 22}
            width={Math.max(0, plot.x.at(value) - plot.left)}
            height={BAR}
          />
        </g>
      ))}
    </>
  );
}

function Named({ chart, layer, plot, i }: { chart: ChartRecord; layer: LayerRecord; plot: Plot; i: number }) {
  const y = plot.top + i * plot.band + 15;
  return (
    <>
      <text class="name" x={plot.left + 4} y={y}>
        {chart.bands![i]}
      </text>
      <text class="label" x={plot.right} y={y}>
        {layer.labels?.[i]}
      </text>
    </>
  );
}

/** With bands a dot and its interval are in a row; otherwise they are points of both axes. */
function Dots({ chart, layer, plot }: { chart: ChartRecord; layer: LayerRecord; plot: Plot }) {
  const { x } = plot;
  return (
    <>
      {layer.x?.map((value, i) => {
        const y = plot.band ? plot.top + i * plot.band + 29 : plot.y.at(layer.y![i]!);
        const [low, high] = [layer.low?.[i] ?? null, layer.high?.[i] ?? null];
        return (
          <g key={i}>
            {plot.band > 0 && <Named chart={chart} layer={layer} plot={plot} i={i} />}
            {low !== null && high !== null && <path class="whisker" d={`M${x.at(low)} ${y}H${x.at(high)}`} />}
            <circle
              class="dot"
              data-marked={layer.marked || undefined}
              cx={x.at(value)}
              cy={y}
              r={layer.marked ? 8 : RADIUS}
            >
              <title>{layer.labels?.[i]}</title>
            </circle>
          </g>
        );
      })}
    </>
  );
}

/** Runs of equal values are one rectangle. */
function Cells({ chart, layer, plot }: { chart: ChartRecord; layer: LayerRecord; plot: Plot }) {
  const starts = layer.x!;
  const named = Math.ceil(14 / plot.band);
  return (
    <>
      {layer.rows!.map((values, row) => {
        const y = plot.top + row * plot.band;
        const found = [];
        for (let from = 0, to = 0; from < values.length; from = to) {
          const value = values[from]!;
          while (to < values.length && values[to] === value) to++;
          if (value === null) continue;
          const [left, right] = [plot.x.at(starts[from]!), plot.x.at(starts[to]!)];
          found.push(
            <rect
              key={from}
              class="cell"
              x={left}
              y={y}
              width={right - left + 0.3}
              height={plot.band + 0.3}
              style={{ "fill-opacity": String(cellOpacity(value)) }}
            >
              <title>{`${chart.bands![row]}: ${tickText(chart.y?.unit ?? "", value)}`}</title>
            </rect>,
          );
        }
        return (
          <g key={row}>
            {row % named === 0 && (
              <text class="value" x={plot.left - 6} y={y + Math.min(11, plot.band)}>
                {ending(chart.bands![row]!, (plot.left - 10) / 7)}
              </text>
            )}
            {found}
          </g>
        );
      })}
    </>
  );
}

export function cellOpacity(share: number): number {
  return Math.round((0.06 + 0.94 * Math.min(1, share)) * 100) / 100;
}

/** Names of nodes differ at their ends. */
function ending(name: string, room: number): string {
  return name.length <= room ? name : `…${name.slice(1 - Math.floor(room))}`;
}
