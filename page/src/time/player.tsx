/** Plays one timeline, or two in step: one scrubber, a plan for each, what differs between them, and figures below. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chart, Key } from "../charts/chart";
import { indexAt } from "../charts/plot";
import { valueText } from "../charts/scale";
import { byName, count, grouped, span } from "../parts/format";
import { PictureButtons } from "../parts/pictures";
import { type Column, Table } from "../parts/table";
import type { Canvas } from "../plan/canvas";
import { useNodesVersion } from "../plan/changes";
import { COLOURS_BY, type ColourBy, Colours, colourBy } from "../plan/colours";
import type { PlanModel, PodItem } from "../plan/model";
import { Picture, type Settings } from "../plan/picture";
import { Choice, Legend } from "../plan/view";
import type { AxisRecord, ChartRecord, FramesRecord, MarkRecord, TimeRecord } from "../protocol";
import { type Address, amend, parse, podHref } from "../shell/address";
import { stamp } from "../shell/clock";
import { type Axis, axisOf, isoOf, momentAt } from "./axis";
import { type Difference, differences } from "./differences";
import { Timeline } from "./timeline";

const SPEEDS = [0.5, 1, 5, 20, 100, 500, 2000, 10_000];
const NAMES: Record<string, string> = {
  cpu: "CPU requested",
  memory: "Memory requested",
  pods: "Pods with a node",
  pending: "Pending pods",
  cost: "Cost so far",
  waitHalf: "Median wait",
  wait95: "95th percentile of waits",
};
const ZONE = "topology.kubernetes.io/zone";

/** One timeline, as the server sends it. */
export interface TimelineData {
  name: string;
  time: TimeRecord;
  frames: FramesRecord;
}

/** `asks`: whether moments can be explained. */
export function Player({ data, address, asks }: { data: TimelineData[]; address: Address; asks: boolean }) {
  const timelines = useMemo(() => data.map(({ frames }) => new Timeline(frames)), [data]);
  const axis = useMemo(() => axisOf(data.map(({ time }) => time)), [data]);
  const marks = useMemo(
    () => data.map(({ time }) => time.marks.map((mark): Placed => ({ ...mark, at: placeOf(axis, data, time, mark) }))),
    [data, axis],
  );
  // Two runs of a scenario have the same events.
  const figures = useMemo(() => figuresOf(data, axis, marks[0]!), [data, axis, marks]);
  const last = axis.moments.length - 1;
  const wanted = address.query.get("at");
  const [at, setAt] = useState(() => (wanted ? momentAt(axis, wanted) : last));
  const [plays, setPlays] = useState(false);
  const [speed, setSpeed] = useState(() => defaultSpeed(axis.moments));
  const by = colourBy(address.query.get("colour"));
  const colours = useMemo(
    () => new Colours(by, allPods(timelines), Date.parse(isoOf(axis, at))),
    // Only ages depend on the moment.
    [timelines, by, by === "age" && at],
  );
  const usual = useMemo(
    () => (timelines.some(({ pods }) => [...pods.values()].some((pod) => pod.requests.cpu)) ? "cpu" : "pods"),
    [timelines],
  );
  const resource = address.query.get("resource") ?? usual;
  // During rendering, before the models are read: everything must show this moment.
  useMemo(() => timelines.forEach((timeline, i) => timeline.go(axis.frames[i]![at]!)), [timelines, axis, at]);
  // Updates the URL once the moment rests.
  useEffect(() => {
    if (plays) return;
    // The current address: another timeline may have been chosen meanwhile.
    const timer = setTimeout(() => amend(parse(location.hash), { at: isoOf(axis, at) }), 400);
    return () => clearTimeout(timer);
  }, [at, plays]);
  usePlayback(plays, speed, axis.moments, at, setAt, () => setPlays(false));
  const go = (moment: number) => {
    setPlays(false);
    setAt(moment);
  };
  const playOrPause = () => {
    if (at >= last) setAt(0);
    setPlays(!plays);
  };
  const now = isoOf(axis, at);
  return (
    <>
      <div class="tools">
        <button type="button" class="primary" onClick={playOrPause}>
          {plays ? "Pause" : "Play"}
        </button>
        <button type="button" aria-label="One step back" onClick={() => go(Math.max(0, at - 1))}>
          ‹
        </button>
        <button type="button" aria-label="One step forward" onClick={() => go(Math.min(last, at + 1))}>
          ›
        </button>
        <label class="field">
          <span>Speed</span>
          <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
            {SPEEDS.map((one) => (
              <option key={one} value={one}>
                {grouped(one)} ×
              </option>
            ))}
          </select>
        </label>
        <Choice
          label="Fill"
          value={resource}
          onChange={(next) => amend(parse(location.hash), { resource: next })}
          options={[...figures.filter(({ unit }) => unit === "ratio").map(({ key }) => key), "pods"].map((one) => [
            one,
            one,
          ])}
        />
        <Choice
          label="Colour"
          value={by}
          onChange={(next) => amend(parse(location.hash), { colour: next })}
          options={Object.entries(COLOURS_BY)}
        />
        <output class="moment">
          {stamp(now, 1)} <span class="muted">+{span(axis.moments[at]!)}</span>
        </output>
      </div>
      {data.map(
        ({ name, time }) =>
          time.note && (
            <p class="note" key={name}>
              {data.length > 1 ? `${name}: ${time.note}` : time.note}
            </p>
          ),
      )}
      <div class="scrubber">
        <input
          type="range"
          min={0}
          max={last}
          value={at}
          aria-label="Moment"
          aria-valuetext={now}
          onInput={(event) => go(event.currentTarget.valueAsNumber)}
        />
        {marks.map((own, i) => (
          <div key={i} class="marks" aria-hidden="true">
            {own.map((mark, number) => (
              <span
                key={number}
                data-what={mark.what}
                title={`${mark.what}: ${mark.detail ?? ""}`}
                style={{ left: `${(100 * mark.at) / Math.max(1, last)}%` }}
              />
            ))}
          </div>
        ))}
      </div>
      <Plans
        data={data}
        timelines={timelines}
        colours={colours}
        by={by}
        resource={resource}
        at={at}
        now={now}
        seconds={asks ? axis.frames.map((frames, i) => data[i]!.time.series.time[frames[at]!]!) : undefined}
      />
      <Figures figures={figures} axis={axis} at={at} names={data.map(({ name }) => name)} onPick={go} />
      {marks.flat().length > 0 && <Marks marks={marks} names={data.map(({ name }) => name)} onPick={go} />}
    </>
  );
}

/** The speed at which the timeline takes about 30 seconds. */
function defaultSpeed(moments: number[]): number {
  return SPEEDS.find((speed) => moments.at(-1)! / speed <= 30) ?? SPEEDS.at(-1)!;
}

function* allPods(timelines: Timeline[]): Generator<PodItem> {
  const seen = new Set<string>();
  for (const timeline of timelines) {
    for (const pod of timeline.pods.values()) {
      if (!seen.has(pod.key)) yield pod;
      seen.add(pod.key);
    }
  }
}

function summaryOf(model: PlanModel): string {
  return `${count(model.nodes.size, "node")}, ${count(model.pods.size - model.pending.size, "pod")} scheduled, ${grouped(model.pending.size)} pending`;
}

function usePlayback(
  plays: boolean,
  speed: number,
  moments: number[],
  at: number,
  setAt: (at: number) => void,
  end: () => void,
): void {
  const here = useRef(at);
  here.current = at;
  useEffect(() => {
    if (!plays) return;
    let [frame, last, now] = [0, performance.now(), moments[here.current]!];
    const step = (time: number) => {
      now += (speed * (time - last)) / 1000;
      last = time;
      let next = here.current;
      while (next + 1 < moments.length && moments[next + 1]! <= now) next++;
      if (next !== here.current) setAt(next);
      if (next + 1 >= moments.length) end();
      else frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [plays, speed, moments]);
}

// -- the plans ------------------------------------------------------------------------------------------------------

interface PlansProps {
  data: TimelineData[];
  timelines: Timeline[];
  colours: Colours;
  by: ColourBy;
  /** What fills bays. */
  resource: string;
  at: number;
  now: string;
  /** For each timeline, the time of its frame, if moments can be explained. */
  seconds?: number[];
}

function Plans({ data, timelines, colours, by, resource, at, now, seconds }: PlansProps) {
  const [chosen, select] = useState<[string, string]>(["", ""]);
  const [marked, mark] = useState(true);
  const pair = timelines.length > 1;
  const differ = useMemo(() => (pair ? differences(timelines[0]!.model, timelines[1]!.model) : []), [timelines, at]);
  const shown = useMemo(() => {
    if (!pair || !marked) return () => true;
    const keys = new Set(differ.map(({ pod }) => pod));
    return (pod: PodItem) => keys.has(pod.key);
  }, [pair, marked, differ]);
  const group = timelines.some(({ model }) => [...model.nodes.values()].some((node) => node.labels[ZONE])) ? ZONE : "";
  return (
    <>
      {pair && (
        <div class="tools">
          <button type="button" aria-pressed={marked} onClick={() => mark(!marked)}>
            Highlight differences
          </button>
          <span role="status">
            {differ.length
              ? `${count(differ.length, "pod")} ${differ.length === 1 ? "differs" : "differ"} at this moment`
              : "Both are the same at this moment"}
          </span>
        </div>
      )}
      <div class={pair ? "pair" : undefined}>
        {timelines.map((timeline, i) => (
          <OnePlan
            key={data[i]!.name}
            model={timeline.model}
            name={data[i]!.name}
            now={now}
            heading={pair ? i : undefined}
            settings={{ group, resource, colour: by }}
            colours={colours}
            shown={shown}
            chosen={chosen}
            onSelect={select}
          />
        ))}
      </div>
      {(chosen[0] || chosen[1]) && (
        <Chosen chosen={chosen} data={data} timelines={timelines} seconds={seconds} onSelect={select} />
      )}
      {timelines.map(({ model }, i) => (
        <Pods
          key={data[i]!.name}
          title={`${count(model.pending.size, "pending pod")}${pair ? ` in ${data[i]!.name}` : ""}`}
          pods={[...model.pending]}
          chosen={chosen[1]}
          onSelect={select}
        />
      ))}
      {pair && differ.length > 0 && (
        <Differences rows={differ} names={data.map(({ name }) => name)} onSelect={select} />
      )}
    </>
  );
}

interface OnePlanProps {
  model: PlanModel;
  name: string;
  /** The moment that is shown. */
  now: string;
  /** The index of one of a pair. */
  heading?: number;
  settings: Settings;
  colours: Colours;
  shown: (pod: PodItem) => boolean;
  chosen: [string, string];
  onSelect: (chosen: [string, string]) => void;
}

function OnePlan({ model, name, now, heading, settings, colours, shown, chosen, onSelect }: OnePlanProps) {
  const nodesVersion = useNodesVersion(model);
  const canvas = useRef<Canvas | null>(null);
  const counts = colours.counts(model.pods.values());
  const file = `plan-${name.replaceAll(/[^\w.-]+/g, "-")}`;
  return (
    <section class="one" aria-label={name}>
      <div class="one-head">
        {heading !== undefined && (
          <h2>
            <Key layer={{ kind: "step", colour: heading, dashed: heading > 0 }} /> {name}
          </h2>
        )}
        <span class="muted grow">{summaryOf(model)}</span>
        <span class="buttons">
          <PictureButtons
            file={file}
            of={`The plan of ${name}`}
            small
            draw={() =>
              canvas.current!.drawn({
                title: name,
                lines: [
                  summaryOf(model),
                  `${now}; the higher a bay is filled, the more ${settings.resource} is requested`,
                ],
                legend: colours.keys(counts),
              })
            }
          />
        </span>
      </div>
      <div class="sea">
        <Picture
          plan={model}
          settings={settings}
          label={settings.group}
          colours={colours}
          nodesVersion={nodesVersion}
          shown={shown}
          selectedNode={chosen[0]}
          selectedPod={chosen[1]}
          onSelect={(node, pod) => onSelect([node, pod])}
          handle={canvas}
        />
      </div>
      <Legend colours={colours} counts={counts} chosen="" onChoose={() => {}} pick={false} />
    </section>
  );
}

interface ChosenProps {
  chosen: [string, string];
  data: TimelineData[];
  timelines: Timeline[];
  seconds?: number[];
  onSelect: (chosen: [string, string]) => void;
}

/** The selected node's pods; the selected pod's node in each plan, with links to its explanation. */
function Chosen({ chosen: [node, pod], data, timelines, seconds, onSelect }: ChosenProps) {
  const of = (i: number) => (timelines.length > 1 ? `${data[i]!.name}: ` : "");
  return (
    <section class="chosen" aria-label="Selection">
      {pod && (
        <p class="sum">
          <strong>{pod}</strong>
          {timelines.map(({ model }, i) => {
            const there = model.pods.get(pod);
            return (
              <span key={data[i]!.name} class="place">
                {of(i)}
                {there ? (there.node ? `on ${there.node}` : "pending") : "does not exist"}
                {there && seconds && (
                  <a class="button small" href={podHref(pod, { timeline: data[i]!.name, at: String(seconds[i]) })}>
                    {there.node ? "Why this node?" : "Why pending?"}
                  </a>
                )}
              </span>
            );
          })}
        </p>
      )}
      {node &&
        timelines.map(({ model }, i) => (
          <Pods
            key={data[i]!.name}
            title={`${of(i)}${count(model.podsOn(node).length, "pod")} on ${node}`}
            pods={model.podsOn(node)}
            chosen={pod}
            onSelect={onSelect}
            open
          />
        ))}
    </section>
  );
}

/** Maximum number of listed pods. */
const MOST_PODS = 200;

interface PodsProps {
  title: string;
  pods: readonly PodItem[];
  chosen: string;
  open?: boolean;
  onSelect: (chosen: [string, string]) => void;
}

function Pods({ title, pods, chosen, open, onSelect }: PodsProps) {
  if (!pods.length) return null;
  const sorted = [...pods].sort((one, other) => byName(one.key, other.key));
  return (
    <details open={open}>
      <summary>{title}</summary>
      <ul class="chips">
        {sorted.slice(0, MOST_PODS).map(({ key, node }) => (
          <li key={key}>
            <button type="button" class="chip" aria-pressed={key === chosen} onClick={() => onSelect([node, key])}>
              {key}
            </button>
          </li>
        ))}
        {sorted.length > MOST_PODS && <li class="muted">and {grouped(sorted.length - MOST_PODS)} more</li>}
      </ul>
    </details>
  );
}

function Differences({
  rows,
  names,
  onSelect,
}: {
  rows: Difference[];
  names: string[];
  onSelect: (chosen: [string, string]) => void;
}) {
  const columns: Column<Difference>[] = [
    {
      title: "Pod",
      value: (row) => row.pod,
      show: (row) => (
        <button type="button" class="link" onClick={() => onSelect(["", row.pod])}>
          {row.pod}
        </button>
      ),
    },
    { title: names[0]!, value: (row) => row.one },
    { title: names[1]!, value: (row) => row.other },
  ];
  return (
    <details>
      <summary>{count(rows.length, "pod")} placed differently, as a table</summary>
      <div class="tall">
        <Table
          caption="Pods that are placed differently"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.pod}
          file="differences"
        />
      </div>
    </details>
  );
}

// -- figures and marks ----------------------------------------------------------------------------------------------

type Unit = NonNullable<AxisRecord["unit"]>;

/** A figure over time: utilization, pending pods, waits; a layer per timeline. */
interface Figure {
  /** Its column. */
  key: string;
  name: string;
  unit: Unit;
  chart: ChartRecord;
}

function figuresOf(data: TimelineData[], { frames, moments }: Axis, marks: Placed[]): Figure[] {
  return data[0]!.time.series.columns.map(({ name, unit }) => ({
    key: name,
    name: NAMES[name] ?? (unit === "ratio" ? `${name} requested` : name.replace(/^room/, "Room")),
    unit,
    chart: {
      x: { name: "since the start", unit: "seconds" },
      y: { unit },
      marks: marks
        .filter(({ what }) => what === "event")
        .map(({ at, detail }): [number, string] => [moments[at]!, detail ?? ""]),
      layers: data.map(({ name: timeline, time }, i) => {
        const values = time.series.columns.find((column) => column.name === name)?.values ?? [];
        const y = frames[i]!.map((frame) => values[frame] ?? 0);
        return { kind: "step", name: timeline, x: moments, y, colour: i, dashed: i > 0 };
      }),
    },
  }));
}

interface FiguresProps {
  figures: Figure[];
  axis: Axis;
  at: number;
  names: string[];
  onPick: (moment: number) => void;
}

function Figures({ figures, axis, at, names, onPick }: FiguresProps) {
  const columns: Column<number>[] = [
    { title: "Time", value: (moment) => isoOf(axis, moment) },
    ...figures.flatMap(({ name, chart }) =>
      chart.layers.map(
        ({ y }, i): Column<number> => ({
          title: names.length > 1 ? `${name}: ${names[i]}` : name,
          value: (moment) => y![moment]!,
        }),
      ),
    ),
  ];
  return (
    <section class="figures-over-time" aria-label="Figures over time">
      <div class="charts">
        {figures.map(({ name, unit, chart }) => {
          const texts = chart.layers.map(({ y }) => valueText(unit, y![at]!));
          return (
            <Chart
              key={name}
              title={name}
              chart={chart}
              file={name.replaceAll(" ", "-")}
              height={150}
              said={`${name}: ${texts.join(" and ")} at this moment`}
              now={axis.moments[at]!}
              onPick={(x) => onPick(indexAt(axis.moments, x))}
            >
              <b>{texts.join(" · ")}</b>
            </Chart>
          );
        })}
      </div>
      <details>
        <summary>Figures as a table</summary>
        <div class="tall">
          <Table
            caption="Figures over time"
            columns={columns}
            rows={axis.moments.map((_, i) => i)}
            rowKey={String}
            file="figures"
            selected={String(at)}
          />
        </div>
      </details>
    </section>
  );
}

interface Placed extends MarkRecord {
  at: number;
}

function placeOf(axis: Axis, data: TimelineData[], time: TimeRecord, mark: MarkRecord): number {
  // Timelines with different start times are aligned by elapsed time.
  const later = 1000 * ((time.series.time[0] ?? 0) - (data[0]!.time.series.time[0] ?? 0));
  return momentAt(axis, new Date(Date.parse(mark.time) - later).toISOString());
}

function Marks({ marks, names, onPick }: { marks: Placed[][]; names: string[]; onPick: (moment: number) => void }) {
  const rows = marks
    .flatMap((own, i) => own.map((mark) => ({ ...mark, timeline: names[i]! })))
    .sort((one, other) => one.at - other.at);
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    {
      title: "Time",
      value: (mark) => mark.time,
      show: (mark) => (
        <button type="button" class="link" onClick={() => onPick(mark.at)}>
          {stamp(mark.time)}
        </button>
      ),
    },
    ...(names.length > 1 ? [{ title: "In", value: (mark: Row) => mark.timeline }] : []),
    { title: "What", value: (mark) => mark.what },
    { title: "Detail", value: (mark) => mark.detail ?? "" },
  ];
  return (
    <section class="card">
      <h2>Marks</h2>
      <Table
        caption="Marked events"
        columns={columns}
        rows={rows}
        rowKey={(mark) => `${mark.timeline} ${mark.time} ${mark.what} ${mark.detail}`}
        file="marks"
      />
    </section>
  );
}
