/** The scheduling queue, the events that requeued pods, and the last decisions. */
import { useMemo } from "preact/hooks";
import { byName, count, grouped, span } from "../parts/format";
import { RequestResult, useRequest } from "../parts/request";
import { type Column, Table } from "../parts/table";
import { useVersion } from "../plan/changes";
import type { DecisionRecord, QueuedPodRecord, QueueRecord, WakeRecord } from "../protocol";
import { nodeHref, podHref } from "../shell/address";
import type { ViewProps } from "../shell/views";
import type { Source } from "../source/source";
import { Quotas } from "./quotas";

const LIMIT = 1000;
const INTERVAL = 1500;
const IN_LANE = 200;

export function QueueView({ source, plan }: ViewProps) {
  const version = useVersion(plan, INTERVAL);
  const depends = [source, source.about.mode === "live" ? version : 0];
  const queue = useRequest(() => source.pending(LIMIT), depends);
  return (
    <div class="page wide">
      <h1>Queue</h1>
      <RequestResult request={queue} what="the queue">
        {(record) => (
          <>
            <Lanes record={record} />
            {record.quotas && record.quotas.length > 0 && <Quotas quotas={record.quotas} />}
            {record.wakes && record.wakes.length > 0 && <Wakes wakes={record.wakes} />}
          </>
        )}
      </RequestResult>
      {source.can("decisions") && <Decisions source={source} depends={depends} />}
    </div>
  );
}

/** Pods by their place in the queue, and rejected ones by reason, or by plugin if there is none. */
export function lanes(pods: QueuedPodRecord[]): Map<string, QueuedPodRecord[]> {
  const found = new Map<string, QueuedPodRecord[]>();
  for (const pod of pods) {
    const why = pod.reason || pod.rejectedBy?.join(", ");
    const lane = pod.gatedBy ? `gated by ${pod.gatedBy}` : `${pod.place || "waiting"}${why ? `: ${why}` : ""}`;
    const there = found.get(lane);
    if (there) there.push(pod);
    else found.set(lane, [pod]);
  }
  return new Map([...found].sort(([one], [other]) => rank(one) - rank(other) || byName(one, other)));
}

const ORDER = ["active", "placeable", "backoff", "in flight", "unschedulable", "gated"];

function rank(lane: string): number {
  const at = ORDER.findIndex((name) => lane.startsWith(name));
  return at < 0 ? ORDER.length : at;
}

function Lanes({ record }: { record: QueueRecord }) {
  const found = useMemo(() => lanes(record.pods), [record]);
  const woken = useMemo(() => wakers(record.wakes ?? []), [record]);
  const all = Object.values(record.counts).reduce((sum, number) => sum + number, 0);
  if (!all) return <p class="empty">No pods are waiting.</p>;
  return (
    <>
      <p class="sum">
        {count(all, "pod")}:{" "}
        {Object.entries(record.counts)
          .filter(([, number]) => number)
          .map(([place, number]) => `${grouped(number)} ${place}`)
          .join(", ")}
        {record.leftOut > 0 && `; the first ${grouped(record.pods.length)} are shown`}
        {record.leader !== undefined &&
          `. This replica is on standby: ${record.leader ? `${record.leader} leads` : "no leader"}`}
      </p>
      <div class="lanes">
        {[...found].map(([lane, pods]) => (
          <section key={lane} class="lane" aria-label={`${lane}: ${count(pods.length, "pod")}`}>
            <h2>
              {lane} <span class="muted">{grouped(pods.length)}</span>
            </h2>
            <ul>
              {pods.slice(0, IN_LANE).map((pod) => (
                <li key={pod.pod}>
                  <a href={podHref(pod.pod)}>{pod.pod}</a>
                  <span class="muted">{waitingText(pod)}</span>
                  {pod.place !== "unschedulable" && woken.has(pod.pod) && (
                    <span class="woken">{wakeText(woken.get(pod.pod)!)}</span>
                  )}
                </li>
              ))}
            </ul>
            {pods.length > IN_LANE && <p class="muted">and {grouped(pods.length - IN_LANE)} more</p>}
          </section>
        ))}
      </div>
      <details>
        <summary>As a table</summary>
        <QueueTable pods={record.pods} />
      </details>
    </>
  );
}

/** Pod -> the last event that requeued it. */
export function wakers(wakes: WakeRecord[]): Map<string, WakeRecord> {
  const found = new Map<string, WakeRecord>();
  // The newest are first.
  for (const wake of wakes) for (const pod of wake.pods) if (!found.has(pod)) found.set(pod, wake);
  return found;
}

/** "NodeAdd" and "Node n1" as text. */
export function wakeText({ event, by }: WakeRecord): string {
  const what = event.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return by ? `requeued by ${by} (${what})` : `requeued: ${what}`;
}

const PODS_SHOWN = 3;

function Wakes({ wakes }: { wakes: WakeRecord[] }) {
  const columns: Column<WakeRecord>[] = [
    { title: "Time", value: (wake) => wake.time },
    { title: "Object", value: (wake) => wake.by ?? "", show: (wake) => <Waker by={wake.by ?? ""} /> },
    { title: "Event", value: (wake) => wake.event },
    { title: "Requeued", value: (wake) => wake.count },
    {
      title: "Pods",
      value: (wake) => wake.pods.join(" "),
      show: (wake) => (
        <>
          {wake.pods.slice(0, PODS_SHOWN).map((pod) => (
            <a key={pod} href={podHref(pod)}>
              {pod}{" "}
            </a>
          ))}
          {wake.count > PODS_SHOWN && <span class="muted">and {grouped(wake.count - PODS_SHOWN)} more</span>}
        </>
      ),
    },
    { title: "Previously refused by", value: (wake) => (wake.rejectedBy ?? []).join(", ") },
  ];
  return (
    <section class="card" aria-labelledby="wakes">
      <h2 id="wakes">Requeue events</h2>
      <Table
        caption="Events that requeued refused pods, newest first"
        columns={columns}
        rows={wakes}
        rowKey={(wake) => `${wake.time} ${wake.event} ${wake.by} ${wake.pods[0]}`}
        file="wakes"
      />
    </section>
  );
}

function Waker({ by }: { by: string }) {
  const [kind = "", name = ""] = by.split(/ (.*)/s);
  if (kind === "Node") return <a href={nodeHref(name)}>{by}</a>;
  if (kind === "Pod") return <a href={podHref(name)}>{by}</a>;
  return <>{by}</>;
}

function waitingText(pod: QueuedPodRecord): string {
  const since = pod.since ? span((Date.now() - Date.parse(pod.since)) / 1000) : "";
  const until = pod.backoffUntil ? Math.max(0, (Date.parse(pod.backoffUntil) - Date.now()) / 1000) : 0;
  return [since, pod.attempts ? count(pod.attempts, "attempt") : "", until ? `backs off for ${span(until)}` : ""]
    .filter(Boolean)
    .join(", ");
}

function QueueTable({ pods }: { pods: QueuedPodRecord[] }) {
  const columns: Column<QueuedPodRecord>[] = [
    { title: "Pod", value: (pod) => pod.pod, show: (pod) => <a href={podHref(pod.pod)}>{pod.pod}</a> },
    { title: "Place", value: (pod) => pod.place ?? "" },
    { title: "Refused by", value: (pod) => (pod.rejectedBy ?? []).join(" ") },
    { title: "Reason", value: (pod) => pod.reason ?? "" },
    { title: "Gated by", value: (pod) => pod.gatedBy ?? "" },
    { title: "Attempts", value: (pod) => pod.attempts ?? 0 },
    { title: "Since", value: (pod) => pod.since ?? "" },
    { title: "Backoff until", value: (pod) => pod.backoffUntil ?? "" },
  ];
  return <Table caption="Waiting pods" columns={columns} rows={pods} rowKey={(pod) => pod.pod} file="queue" />;
}

function Decisions({ source, depends }: { source: Source; depends: unknown[] }) {
  const request = useRequest(() => source.decisions(LIMIT), depends);
  const columns: Column<DecisionRecord>[] = [
    { title: "Time", value: (one) => one.time },
    { title: "Pod", value: (one) => one.pod, show: (one) => <a href={podHref(one.pod)}>{one.pod}</a> },
    {
      title: "Node",
      value: (one) => one.node ?? "",
      show: (one) => (one.node ? <a href={nodeHref(one.node)}>{one.node}</a> : <span class="bad-text">none</span>),
    },
    { title: "Attempt", value: (one) => one.attempt ?? 0 },
    { title: "Milliseconds", value: (one) => Math.round(10 * (one.milliseconds ?? 0)) / 10 },
    { title: "Message", value: (one) => one.message ?? "", long: true },
  ];
  return (
    <section aria-labelledby="decisions">
      <h2 id="decisions">Last decisions</h2>
      <RequestResult request={request} what="the last decisions">
        {({ decisions }) => (
          <>
            <p class="sum">{latencies(decisions)}</p>
            <div class="tall">
              <Table
                caption="The last decisions, newest first"
                columns={columns}
                rows={decisions}
                rowKey={(one) => `${one.uid} ${one.attempt} ${one.time}`}
                file="decisions"
              />
            </div>
          </>
        )}
      </RequestResult>
    </section>
  );
}

export function latencies(decisions: DecisionRecord[]): string {
  const sorted = decisions.map((one) => one.milliseconds ?? 0).sort((one, other) => one - other);
  if (!sorted.length) return "No decisions yet.";
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]!.toFixed(1);
  return `${count(sorted.length, "decision")}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
}
