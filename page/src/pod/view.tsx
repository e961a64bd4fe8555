/** A pod: the verdict on every node, what would help, its story, its events and its group. */

import { count, grouped } from "../parts/format";
import { RequestResult, useRequest } from "../parts/request";
import { type Column, Table } from "../parts/table";
import { useVersion } from "../plan/changes";
import type { EventRecord, SuggestionRecord, VerdictRecord } from "../protocol";
import { groupHref, href, type Moment, momentOf, momentQuery, nodeHref, podHref } from "../shell/address";
import { stamp } from "../shell/clock";
import type { ViewProps } from "../shell/views";
import { Refusals } from "./refusals";
import { Scores } from "./scores";
import { Story } from "./story";

/** Milliseconds between requests: answering delays a running scheduler. */
const INTERVAL = 5000;

/** Keyed, so that no state of another pod is shown. */
export function PodView(props: ViewProps) {
  return <OnePod key={`${props.address.parts.join("/")} ${props.address.query}`} {...props} />;
}

function OnePod({ source, plan, address }: ViewProps) {
  const key = address.parts.join("/");
  const version = useVersion(plan, INTERVAL);
  const moment = momentOf(address);
  const request = useRequest(
    () => source.explain(key, moment),
    [source, key, source.about.mode === "live" ? version : 0],
  );
  return (
    <div class="page">
      <nav aria-label="Breadcrumbs" class="crumbs">
        {moment ? <AtMoment moment={moment} /> : <a href={href("plan", [], { select: `pod:${key}` })}>Plan</a>} /{" "}
        {address.parts[0]}
      </nav>
      <h1>{address.parts[1] ?? key}</h1>
      <RequestResult request={request} what={moment ? "the verdict at that time" : "the verdict"}>
        {(verdict) => <Verdict verdict={verdict} moment={moment} />}
      </RequestResult>
    </div>
  );
}

/** The link back to the timeline. */
function AtMoment({ moment: { timeline, at } }: { moment: Moment }) {
  const time = new Date(1000 * Number(at)).toISOString();
  return (
    <a href={href("time", [], { at: time })}>
      {timeline}, {stamp(time)}
    </a>
  );
}

function Verdict({ verdict, moment }: { verdict: VerdictRecord; moment?: Moment }) {
  const { scheduler, suggestions = [], relief = [], refusals = [], preemption, podGroup } = verdict;
  const obstacles = (verdict.obstacles as string[] | undefined) ?? [];
  const story = scheduler?.story;
  return (
    <>
      <Sentence verdict={verdict} moment={moment} />
      {(suggestions.length > 0 || relief.length > 0 || obstacles.length > 0) && (
        <section class="card" aria-labelledby="help">
          <h2 id="help">What would help</h2>
          {obstacles.map((text) => (
            <p key={text} class="note">
              {text}
            </p>
          ))}
          <ol class="help">
            {relief.map((one) => (
              <li key={one.text}>
                {one.text}
                <span class="muted"> · places {count(one.pods, "pod")}</span>
                {one.note && <span class="muted"> · {one.note}</span>}
              </li>
            ))}
            {suggestions.map((one, i) => (
              <Help key={i} pod={verdict.pod} suggestion={one} onPlan={!moment} />
            ))}
          </ol>
        </section>
      )}
      {refusals.length > 0 && <Refusals verdict={verdict} />}
      {verdict.scores && Object.keys(verdict.scores).length > 0 && <Scores verdict={verdict} />}
      {preemption && (preemption.reason || Object.keys(preemption.candidates ?? {}).length > 0) && (
        <section class="card" aria-labelledby="preemption">
          <h2 id="preemption">Preemption</h2>
          {preemption.reason && <p>Not allowed: {preemption.reason}</p>}
          {Object.keys(preemption.candidates ?? {}).length > 0 && (
            <Candidates preemption={preemption} moment={moment} />
          )}
        </section>
      )}
      {podGroup && (
        <section class="card" aria-labelledby="group">
          <h2 id="group">Pod group</h2>
          <p>
            <a href={groupHref(podGroup.podGroup, momentQuery(moment))}>{podGroup.podGroup}</a>:{" "}
            {podGroup.fits ? "fits as a whole" : (podGroup.message ?? podGroup.code)}
          </p>
          <p class="muted">
            {count((podGroup.pods ?? []).length, "member")} tried together,{" "}
            {count(Object.keys(podGroup.haveNode ?? {}).length, "member")} with a node
          </p>
        </section>
      )}
      {story && <Story story={story} />}
      {scheduler?.events && scheduler.events.length > 0 && <Events events={scheduler.events} pod={verdict.pod} />}
    </>
  );
}

function Sentence({ verdict, moment }: { verdict: VerdictRecord; moment?: Moment }) {
  const { node, currentNode, error, scheduler, podGroup } = verdict;
  const place = scheduler?.place ? (
    <span class="muted">
      {" "}
      · {scheduler.place}
      {scheduler.node ? ` ${scheduler.node}` : ""}
      {scheduler.attempts ? `, ${count(scheduler.attempts, "attempt")}` : ""}
    </span>
  ) : null;
  if (error === "gated") {
    const why = verdict.absentNodesStatus?.reasons.join("; ") ?? "gated";
    const there = currentNode || (scheduler?.place === "bound to" ? scheduler.node : "");
    if (there)
      return (
        <p class="verdict good">
          It is on <a href={nodeHref(there)}>{there}</a>
          <span class="muted"> · alone it would be gated now: {why}</span>
        </p>
      );
    return (
      <p class="verdict waits">
        Gated, not tried yet: {why} {place}
      </p>
    );
  }
  if (error) return <p class="verdict bad">Cannot be evaluated: {error}</p>;
  if (node && !currentNode && podGroup && !podGroup.fits) {
    return (
      <p class="verdict waits">
        It waits for its pod group <a href={groupHref(podGroup.podGroup, momentQuery(moment))}>{podGroup.podGroup}</a>,
        which does not fit; alone it would go to <a href={nodeHref(node)}>{node}</a>
        {place}
      </p>
    );
  }
  if (node) {
    const words = !currentNode
      ? "It goes to"
      : currentNode === node
        ? "It is on the node that would be chosen now:"
        : `It is on ${currentNode}; it would now go to`;
    return (
      <p class="verdict good">
        {words} <a href={nodeHref(node)}>{node}</a>
        {verdict.nominated && ", to which it is nominated"}
        {verdict.feasibleNodes !== undefined && (
          <span class="muted">
            {" "}
            · {count(verdict.feasibleNodes, "node")} feasible{margin(verdict)}
          </span>
        )}
        {place}
      </p>
    );
  }
  return (
    <p class="verdict bad">
      {currentNode ? `It is on ${currentNode}; it would not fit on any node now. ` : "It does not fit on any node. "}
      {verdict.message}
      {verdict.nominatedNode && ` It waits for room on ${verdict.nominatedNode}.`}
      {place}
    </p>
  );
}

/** The winner's margin. */
function margin(verdict: VerdictRecord): string {
  const totals = Object.entries(verdict.totals ?? {});
  const own = verdict.totals?.[verdict.node ?? ""];
  if (own === undefined || totals.length < 2) return "";
  const next = Math.max(...totals.filter(([name]) => name !== verdict.node).map(([, points]) => points));
  return own === next ? "; another node has the same score" : `; ${grouped(own - next)} points ahead of the next node`;
}

/** `onPlan`: whether the plan shows the same moment. */
function Help({ pod, suggestion, onPlan }: { pod: string; suggestion: SuggestionRecord; onPlan: boolean }) {
  return (
    <li>
      {suggestion.text}
      <span class="muted"> · {count(suggestion.gain, "node")} would become feasible</span>
      {suggestion.note && <span class="muted"> · {suggestion.note}</span>}{" "}
      {onPlan && suggestion.nodes.length > 0 && (
        <a class="button small" href={href("plan", [], { ghost: `${pod}@${suggestion.nodes.join(",")}` })}>
          Show on the plan
        </a>
      )}
    </li>
  );
}

function Candidates({ preemption, moment }: { preemption: NonNullable<VerdictRecord["preemption"]>; moment?: Moment }) {
  const rows = Object.entries(preemption.candidates ?? {}).map(([node, { victims, pdbViolations }]) => ({
    node,
    victims,
    pdbViolations,
    selected: preemption.selected?.includes(node) ?? false,
  }));
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    { title: "Node", value: (row) => row.node, show: (row) => <a href={nodeHref(row.node)}>{row.node}</a> },
    { title: "Victims", value: (row) => row.victims.length },
    {
      title: "Pods",
      value: (row) => row.victims.join(" "),
      show: (row) =>
        row.victims.map((victim) => (
          <a key={victim} href={podHref(victim, momentQuery(moment))}>
            {victim}{" "}
          </a>
        )),
    },
    { title: "Violated budgets", value: (row) => row.pdbViolations },
    { title: "", value: (row) => (row.selected ? "selected" : "") },
  ];
  return (
    <Table
      caption="Nodes that would fit it after evictions"
      columns={columns}
      rows={rows}
      rowKey={(row) => row.node}
      file="preemption"
    />
  );
}

function Events({ events, pod }: { events: EventRecord[]; pod: string }) {
  const columns: Column<EventRecord>[] = [
    { title: "Time", value: (event) => event.time ?? "", show: (event) => stamp(event.time ?? "") },
    { title: "Type", value: (event) => event.type ?? "" },
    { title: "Reason", value: (event) => event.reason ?? "" },
    { title: "Note", value: (event) => event.note ?? "" },
    { title: "From", value: (event) => event.from ?? "" },
    { title: "Times", value: (event) => event.count },
  ];
  return (
    <section class="card" aria-labelledby="events">
      <h2 id="events">Events</h2>
      <Table
        caption={`Events about ${pod}`}
        columns={columns}
        rows={events}
        rowKey={(event) => `${event.time} ${event.reason} ${event.note}`}
        file="events"
      />
    </section>
  );
}
