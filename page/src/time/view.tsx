/** Time: the plan of a recording at any of its moments, played as fast as one likes, with marks and figures below. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Answer, useAsked } from "../parts/asked";
import { count, span } from "../parts/format";
import { type Column, Table } from "../parts/table";
import { useNodesVersion } from "../plan/changes";
import { Colours } from "../plan/colours";
import { Picture } from "../plan/picture";
import type { FramesRecord, Mark, TimeRecord } from "../protocol";
import { amend, type Address } from "../shell/address";
import type { ViewProps } from "../shell/views";
import { Chart, indexAt } from "./chart";
import { Course } from "./course";

const SPEEDS = [0.5, 1, 5, 20, 100, 500];
const NAMES: Record<string, string> = {
  cpu: "CPU requested",
  memory: "Memory requested",
  pods: "Pods with a node",
  pending: "Pending pods",
  waitHalf: "Half of the pods waited at most",
  wait95: "95 of 100 waited at most",
};
const ZONE = "topology.kubernetes.io/zone";
const ALL = () => true;

export function TimeView({ source, address }: ViewProps) {
  const track = address.query.get("track") ?? source.about.tracks?.[0] ?? "recorded";
  const asked = useAsked(() => Promise.all([source.time(track), source.frames(track)]), [source, track]);
  return (
    <Answer asked={asked} what="the course: it is played again">
      {([time, frames]) => (time.series.time.length ? <Player time={time} frames={frames} address={address} /> : <p class="empty">Nothing was recorded.</p>)}
    </Answer>
  );
}

function Player({ time, frames, address }: { time: TimeRecord; frames: FramesRecord; address: Address }) {
  const course = useMemo(() => new Course(frames), [frames]);
  const moments = time.series.time;
  const wanted = address.query.get("at");
  const [at, setAt] = useState(() => (wanted ? indexAt(time, wanted) : course.last));
  const [plays, setPlays] = useState(false);
  const [speed, setSpeed] = useState(() => usual(moments));
  const [chosen, select] = useState<[string, string]>(["", ""]);
  const nodesVersion = useNodesVersion(course.model);
  const colours = useMemo(() => new Colours("workload", course.pods.values(), Date.now()), [course]);
  // Before anything is read of the model: what is said shall be of this moment.
  useMemo(() => course.go(at), [course, at]);
  // The address follows once it rests, and leads when it is opened.
  useEffect(() => {
    if (plays) return;
    const timer = setTimeout(() => amend(address, { at: new Date(1000 * moments[at]!).toISOString() }), 400);
    return () => clearTimeout(timer);
  }, [at, plays]);
  usePlaying(plays, speed, moments, at, setAt, () => setPlays(false));
  const nodes = [...course.model.nodes.values()];
  const group = nodes.some((node) => node.labels[ZONE]) ? ZONE : "";
  const resource = useMemo(() => ([...course.pods.values()].some((pod) => pod.requests.cpu) ? "cpu" : "pods"), [course]);
  const go = (index: number) => (setPlays(false), setAt(index));
  const now = new Date(1000 * moments[at]!).toISOString();
  return (
    <div class="time">
      <h1 class="visually-hidden">Time</h1>
      <div class="tools">
        <button type="button" class="primary" onClick={() => (at >= course.last && setAt(0), setPlays(!plays))}>
          {plays ? "Pause" : "Play"}
        </button>
        <button type="button" aria-label="One step back" onClick={() => go(Math.max(0, at - 1))}>
          ‹
        </button>
        <button type="button" aria-label="One step on" onClick={() => go(Math.min(course.last, at + 1))}>
          ›
        </button>
        <label class="field">
          <span>Speed</span>
          <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
            {SPEEDS.map((one) => (
              <option key={one} value={one}>
                {one} ×
              </option>
            ))}
          </select>
        </label>
        <output class="moment">
          {now.replace("T", " ").slice(0, 21)} <span class="muted">+{span(moments[at]! - moments[0]!)}</span>
        </output>
        <span class="muted">
          {count(course.model.nodes.size, "node")}, {count(course.model.pods.size - course.model.pending.size, "pod")} stowed, {course.model.pending.size} pending
        </span>
      </div>
      {time.note && <p class="note">{time.note}</p>}
      <div class="scrubber">
        <input type="range" min={0} max={course.last} value={at} aria-label="Moment" aria-valuetext={now} onInput={(event) => go(event.currentTarget.valueAsNumber)} />
        <div class="marks" aria-hidden="true">
          {time.marks.map((mark, i) => (
            <span key={i} data-what={mark.what} title={`${mark.what}: ${mark.detail}`} style={{ left: `${(100 * indexAt(time, mark.time)) / Math.max(1, course.last)}%` }} />
          ))}
        </div>
      </div>
      <div class="sea">
        <Picture plan={course.model} settings={{ group, resource, colour: "workload" }} label={group} colours={colours} nodesVersion={nodesVersion} shown={ALL} selectedNode={chosen[0]} selectedPod={chosen[1]} onSelect={(node, pod) => select([node, pod])} />
      </div>
      {chosen[0] && <p class="sum">{chosen[1] || chosen[0]}</p>}
      <div class="charts">
        {time.series.columns.map((column) => (
          <Chart key={column.name} name={NAMES[column.name] ?? column.name} unit={column.unit} time={moments} values={column.values} at={at} onPick={go} />
        ))}
      </div>
      {time.marks.length > 0 && <Marks marks={time.marks} onPick={(mark) => go(indexAt(time, mark.time))} />}
    </div>
  );
}

/** A speed at which the whole takes about half a minute. */
function usual(moments: number[]): number {
  const seconds = (moments.at(-1) ?? 0) - (moments[0] ?? 0);
  return SPEEDS.find((speed) => seconds / speed <= 30) ?? SPEEDS.at(-1)!;
}

function usePlaying(plays: boolean, speed: number, moments: number[], at: number, setAt: (at: number) => void, end: () => void): void {
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

function Marks({ marks, onPick }: { marks: Mark[]; onPick: (mark: Mark) => void }) {
  const columns: Column<Mark>[] = [
    {
      title: "Time",
      value: (mark) => mark.time,
      show: (mark) => (
        <button type="button" class="link" onClick={() => onPick(mark)}>
          {mark.time}
        </button>
      ),
    },
    { title: "What", value: (mark) => mark.what },
    { title: "Detail", value: (mark) => mark.detail ?? "" },
  ];
  return (
    <section class="card">
      <h2>Marks</h2>
      <Table caption="What happened" columns={columns} rows={marks} rowKey={(mark) => `${mark.time} ${mark.what} ${mark.detail}`} file="marks" />
    </section>
  );
}
