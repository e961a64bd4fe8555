/** The plan: nodes as bays grouped by a label, pods as boxes in them, pending pods below, and what is chosen beside it. */
import { useMemo, useRef, useState } from "preact/hooks";
import { amount, count, grouped, percent, sortedNames } from "../parts/format";
import { PictureButtons } from "../parts/pictures";
import { Swatch } from "../parts/swatch";
import { type Column, Table } from "../parts/table";
import { amend, nodeHref } from "../shell/address";
import { stamp } from "../shell/clock";
import type { ViewProps } from "../shell/views";
import type { Canvas } from "./canvas";
import { useNodesVersion, useVersion } from "./changes";
import { COLOURS_BY, type ColourBy, Colours, colourBy } from "./colours";
import { useDevices } from "./devices";
import { closed, used } from "./layout";
import { isBroken, type NodeItem, type PlanModel, type PodItem } from "./model";
import { Panel } from "./panel";
import { byReason, PendingPods, pendingText, useQueue } from "./pending";
import { Picture, type Settings } from "./picture";
import { parseSelector } from "./selector";

const ZONE = "topology.kubernetes.io/zone";
/** Labels to group nodes by: the default is the first with several values. */
const USUAL = [
  ZONE,
  "topology.kubernetes.io/rack",
  "topology.kubernetes.io/region",
  "node.kubernetes.io/instance-type",
];
const MOST_HOLDS = 400;

export function PlanView({ source, plan, address }: ViewProps) {
  useDevices(source, plan);
  const version = useVersion(plan);
  const nodesVersion = useNodesVersion(plan);
  const labels = useMemo(() => groupLabels(plan), [plan, nodesVersion]);
  const resources = useMemo(() => resourcesOf(plan), [plan, nodesVersion]);
  const query = address.query;
  // Bays would look empty in a cluster whose pods request nothing.
  const nobodyAsksForCpu = useMemo(
    () => plan.pods.size > 0 && nobody(plan.pods.values(), (pod) => !!pod.requests.cpu),
    [plan, version],
  );
  const settings: Settings = {
    group: query.get("group") ?? usualGroup(labels),
    resource: query.get("resource") ?? (nobodyAsksForCpu ? "pods" : "cpu"),
    colour: colourBy(query.get("colour")),
  };
  const filter = query.get("filter") ?? "";
  const asTable = query.get("as") === "table";
  const [node, pod, workload] = chosen(
    address.view === "node" ? `node:${address.parts[0] ?? ""}` : (query.get("select") ?? ""),
  );
  // Recomputed only when the set of kinds changes, so that the legend is stable.
  const kinds = useKinds(plan, version, settings.colour);
  const [colours, made] = useMemo(
    () => [new Colours(settings.colour, plan.pods.values(), Date.now(), !plan.loading), version] as const,
    [plan, settings.colour, kinds, plan.loading],
  );
  const matches = useMemo(() => parseSelector(filter), [filter]);
  // Undefined for all.
  const found = useMemo(
    () =>
      filter && typeof matches !== "string"
        ? [...plan.pods.values()].filter((item) => matches(item.labels))
        : undefined,
    [plan, version, matches],
  );
  const counts = useMemo(
    () => (made === version && !found ? colours.given : colours.counts(found ?? plan.pods.values())),
    [plan, version, found, colours],
  );
  const shown = useMemo(() => {
    const named = (item: PodItem) => !workload || item.family === workload || item.namespace === workload;
    return filter && typeof matches !== "string" ? (item: PodItem) => named(item) && matches(item.labels) : named;
  }, [filter, matches, workload]);
  const queue = useQueue(source, plan, version);
  const ghost = query.get("ghost") ?? "";
  const ghosts = useMemo(() => ghostsOf(plan, ghost), [plan, ghost, nodesVersion]);
  const canvas = useRef<Canvas | null>(null);
  const pendingPods = useRef<HTMLDivElement>(null);
  const [hover, setHover] = useState<{ node: string; pod?: PodItem; x: number; y: number } | null>(null);
  const set = (values: Record<string, string | undefined>) => amend({ ...address, view: "plan", parts: [] }, values);
  const select = (nextNode: string, nextPod: string) =>
    set({ select: nextPod ? `pod:${nextPod}` : nextNode ? `node:${nextNode}` : undefined });
  const totals = useMemo(() => totalsOf(plan, settings.resource), [plan, version, settings.resource]);
  const name = `stowplan-${source.about.title.replaceAll(/[^\w.-]+/g, "-")}`;
  const sum = `${count(plan.nodes.size, "node")}, ${count(totals.scheduled, "pod")} scheduled, ${grouped(plan.pending.size)} pending; ${plan.loading ? "loading more …" : `${settings.resource} ${percent(totals.requested, totals.whole)} requested${totals.closed ? `, ${percent(totals.closed, totals.whole)} cannot be had (striped)` : ""}`}`;
  return (
    <div class="plan" data-chosen={!!(node || pod) || undefined}>
      <h1 class="visually-hidden">The plan of {source.about.title}</h1>
      <div class="tools">
        <Choice
          label="Group by"
          value={settings.group}
          onChange={(group) => set({ group })}
          options={[
            ["", "nothing"],
            ...[...labels].map(([label, values]): [string, string] => [label, `${short(label)} (${values})`]),
          ]}
        />
        <Choice
          label="Fill"
          value={settings.resource}
          onChange={(resource) => set({ resource })}
          options={resourceOptions(plan, resources)}
        />
        <Choice
          label="Colour"
          value={settings.colour}
          onChange={(colour) => set({ colour, select: workload ? undefined : (query.get("select") ?? undefined) })}
          options={Object.entries(COLOURS_BY)}
        />
        <label class="field grow">
          <span>Pods</span>
          <input
            type="text"
            value={filter}
            placeholder="labels: app=web,tier!=db"
            spellcheck={false}
            aria-invalid={typeof matches === "string"}
            onInput={(event) => set({ filter: event.currentTarget.value || undefined })}
          />
        </label>
        <span class="buttons">
          <button type="button" aria-pressed={asTable} onClick={() => set({ as: asTable ? undefined : "table" })}>
            Table
          </button>
          {!asTable && (
            <>
              <PictureButtons
                file={name}
                draw={() =>
                  canvas.current!.drawn({
                    title: source.about.title,
                    lines: [
                      `${sum}; the higher a bay is filled, the more ${settings.resource} is requested`,
                      `${stamp(Date.now())}${pendingText(byReason(plan.pending, queue))}`,
                    ],
                    legend: colours.keys(counts),
                  })
                }
              />
              <button type="button" aria-label="Zoom in" onClick={() => canvas.current!.zoom(1.35)}>
                +
              </button>
              <button type="button" aria-label="Zoom out" onClick={() => canvas.current!.zoom(1 / 1.35)}>
                −
              </button>
              <button type="button" aria-label="Show everything" onClick={() => canvas.current!.fit()}>
                ⤢
              </button>
            </>
          )}
        </span>
      </div>
      {typeof matches === "string" && (
        <p class="note" role="alert">
          {matches}
        </p>
      )}
      <p class="sum">
        {sum}
        {source.about.timelines?.[0] && `; at the end of ${source.about.timelines[0]}`}
        {found && `; ${count(found.length, "pod")} with these labels`}
        {ghost && (
          <button type="button" class="small ghost" onClick={() => set({ ghost: undefined })}>
            Outlined: where {ghost.split("@")[0]} would fit <span aria-hidden="true">✕</span>
            <span class="visually-hidden">: hide</span>
          </button>
        )}
      </p>
      {asTable ? (
        <NodesTable
          plan={plan}
          version={version}
          settings={settings}
          file={`${name}-nodes`}
          shown={shown}
          selected={node}
        />
      ) : (
        <div class="sea">
          <Picture
            plan={plan}
            settings={settings}
            label={settings.group}
            colours={colours}
            nodesVersion={nodesVersion}
            shown={shown}
            selectedNode={node || plan.pods.get(pod)?.node}
            selectedPod={pod}
            ghosts={ghosts}
            pendingPods={() => pendingPods.current?.getBoundingClientRect()}
            onSelect={select}
            onHover={(over, item, x, y) => setHover(over ? { node: over, pod: item, x, y } : null)}
            handle={canvas}
          />
          {hover && <Tip plan={plan} resource={settings.resource} {...hover} />}
          <span class="visually-hidden" role="status">
            {node && spoken(plan, node, settings.resource)}
          </span>
        </div>
      )}
      <Legend
        colours={colours}
        counts={counts}
        chosen={workload}
        onChoose={(entry) => set({ select: entry === workload ? undefined : `workload:${entry}` })}
        pick={settings.colour === "workload" || settings.colour === "namespace"}
      />
      <div ref={pendingPods} class="pending-dock">
        <PendingPods
          plan={plan}
          version={version}
          queue={queue}
          colours={colours}
          shown={shown}
          selected={pod}
          onSelect={(key) => select("", key)}
        />
      </div>
      {(node || pod) && (
        <Panel
          source={source}
          plan={plan}
          colours={colours}
          queue={queue}
          resource={settings.resource}
          node={node}
          pod={pod}
          onSelect={select}
          onGroup={(group) => set({ group })}
          tries={source.can("whatIf")}
        />
      )}
    </div>
  );
}

/** A pod drawn on candidate nodes, from NS/NAME@NODE,NODE. */
export function ghostsOf(plan: PlanModel, text: string): Map<string, PodItem[]> {
  const [key = "", nodes = ""] = text.split("@");
  const pod = plan.pods.get(key);
  return new Map(
    pod
      ? nodes
          .split(",")
          .filter(Boolean)
          .map((node) => [node, [{ ...pod, node }]])
      : [],
  );
}

/** node, pod and workload of a `select` value. */
export function chosen(select: string): [string, string, string] {
  const colon = select.indexOf(":");
  const value = select.slice(colon + 1);
  switch (select.slice(0, colon)) {
    case "node":
      return [value, "", ""];
    case "pod":
      return ["", value, ""];
    case "workload":
      return ["", "", value];
  }
  return ["", "", ""];
}

/** Increments when the set of coloured kinds changes. */
function useKinds(plan: PlanModel, version: number, by: ColourBy): string {
  return useMemo(() => {
    if (by === "age") return String(Math.floor(version / 10));
    const kinds = new Set<string>();
    for (const pod of plan.pods.values())
      kinds.add(by === "workload" ? pod.family : by === "namespace" ? pod.namespace : String(pod.priority));
    return kinds.size > 500 ? String(kinds.size) : [...kinds].sort().join(" ");
  }, [plan, version, by]);
}

function nobody<T>(all: Iterable<T>, does: (one: T) => boolean): boolean {
  for (const one of all) if (does(one)) return false;
  return true;
}

/** The label to group by if none is chosen. */
export function usualGroup(labels: ReadonlyMap<string, number>): string {
  return USUAL.find((label) => (labels.get(label) ?? 0) > 1) ?? "";
}

export function groupLabels(plan: PlanModel): Map<string, number> {
  const values = new Map<string, Set<string>>();
  for (const node of plan.nodes.values()) {
    for (const [label, value] of Object.entries(node.labels)) {
      const there = values.get(label);
      if (there) there.add(value);
      else values.set(label, new Set([value]));
    }
  }
  const found = [...values].filter(
    ([, all]) => all.size <= MOST_HOLDS && (all.size < plan.nodes.size || plan.nodes.size < 3),
  );
  const sizes = new Map(found.map(([label, all]) => [label, all.size]));
  const sorted = [...USUAL, ...sortedNames([...sizes.keys()].filter((label) => !USUAL.includes(label)))];
  return new Map(sorted.filter((label) => sizes.has(label)).map((label) => [label, sizes.get(label)!]));
}

export function resourcesOf(plan: PlanModel): string[] {
  const found = new Set<string>(["cpu", "memory", "pods"]);
  for (const node of plan.nodes.values()) for (const name of Object.keys(node.allocatable)) found.add(name);
  return [...found];
}

/** Names with titles: devices are named after their driver. */
export function resourceOptions(plan: PlanModel, resources: readonly string[]): [string, string][] {
  const { drivers } = plan;
  return resources.map((name) => [name, drivers.has(name) ? `devices of ${name}` : name]);
}

/** `closed`: of devices, those that nobody can have. */
export function totalsOf(plan: PlanModel, resource: string) {
  let [scheduled, requested, whole, out] = [0, 0, 0, 0];
  for (const node of plan.nodes.values()) {
    const pods = plan.podsOn(node.name);
    scheduled += pods.length;
    requested += used(pods, resource);
    whole += node.allocatable[resource] ?? 0;
    out += closed(node, pods, resource);
  }
  return { scheduled, requested, whole, closed: out };
}

export function short(label: string): string {
  return label.slice(label.lastIndexOf("/") + 1);
}

function spoken(plan: PlanModel, node: string, resource: string): string {
  return `${node}: ${load(plan, node, resource)}`;
}

function load(plan: PlanModel, node: string, resource: string): string {
  const pods = plan.podsOn(node);
  const whole = plan.nodes.get(node)?.allocatable[resource] ?? 0;
  return `${count(pods.length, "pod")}, ${percent(used(pods, resource), whole)} of its ${resource} requested`;
}

interface ChoiceProps {
  label: string;
  value: string;
  options: [string, string][];
  onChange: (value: string) => void;
}

export function Choice({ label, value, options, onChange }: ChoiceProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {!options.some(([one]) => one === value) && <option value={value}>{value}</option>}
        {options.map(([one, title]) => (
          <option key={one} value={one}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

function Tip({
  plan,
  resource,
  node,
  pod,
  x,
  y,
}: {
  plan: PlanModel;
  resource: string;
  node: string;
  pod?: PodItem;
  x: number;
  y: number;
}) {
  return (
    <div class="tip" aria-hidden="true" style={{ left: `${x}px`, top: `${y}px` }}>
      {pod ? (
        <>
          <strong>{pod.key}</strong>
          <br />
          {pod.workload || "no workload"}, {amount(resource, pod.requests[resource] ?? 0)} {resource}
        </>
      ) : (
        <strong>{node}</strong>
      )}
      <br />
      <span class="muted">{pod ? spoken(plan, node, resource) : load(plan, node, resource)}</span>
    </div>
  );
}

const MOST_ENTRIES = 24;

export function Legend({
  colours,
  counts,
  chosen: picked,
  onChoose,
  pick,
}: {
  colours: Colours;
  counts: ReadonlyMap<string, number>;
  chosen: string;
  onChoose: (name: string) => void;
  pick: boolean;
}) {
  const [all, setAll] = useState(false);
  const entries = all ? colours.legend : colours.legend.slice(0, MOST_ENTRIES);
  return (
    <ul class="legend" aria-label="Legend">
      {entries.map((entry) => (
        <li key={entry.name}>
          {pick ? (
            <button
              type="button"
              class="quiet"
              aria-pressed={entry.name === picked}
              onClick={() => onChoose(entry.name)}
            >
              <Swatch paint={entry.paint} /> {entry.name}{" "}
              <span class="muted">{grouped(counts.get(entry.name) ?? 0)}</span>
            </button>
          ) : (
            <span>
              <Swatch paint={entry.paint} /> {entry.name}{" "}
              <span class="muted">{grouped(counts.get(entry.name) ?? 0)}</span>
            </span>
          )}
        </li>
      ))}
      {colours.legend.length > MOST_ENTRIES && (
        <li>
          <button type="button" class="quiet" onClick={() => setAll(!all)}>
            {all ? "fewer" : `${grouped(colours.legend.length - MOST_ENTRIES)} more`}
          </button>
        </li>
      )}
    </ul>
  );
}

interface NodesTableProps {
  plan: PlanModel;
  version: number;
  settings: Settings;
  file: string;
  shown: (pod: PodItem) => boolean;
  selected: string;
}

function NodesTable({ plan, version, settings, file, shown, selected }: NodesTableProps) {
  const { group, resource } = settings;
  const rows = useMemo(() => sortedNames([...plan.nodes.keys()]).map((name) => plan.nodes.get(name)!), [plan, version]);
  const requested = (node: NodeItem, name = resource) => used(plan.podsOn(node.name), name);
  // The chosen one first.
  const resources = [resource, ...resourcesOf(plan).filter((name) => name !== resource && name !== "pods")];
  const columnsOf = (name: string): Column<NodeItem>[] => [
    {
      title: `${name} requested`,
      resource: name,
      value: (node) => requested(node, name),
      show: (node) => amount(name, requested(node, name)),
    },
    {
      title: `${name} allocatable`,
      resource: name,
      value: (node) => node.allocatable[name] ?? 0,
      show: (node) => amount(name, node.allocatable[name] ?? 0),
    },
  ];
  const columns: Column<NodeItem>[] = [
    { title: "Node", value: (node) => node.name, show: (node) => <a href={nodeHref(node.name)}>{node.name}</a> },
    ...(group ? [{ title: short(group), value: (node: NodeItem) => node.labels[group] ?? "" }] : []),
    { title: "Pods", value: (node) => plan.podsOn(node.name).filter(shown).length },
    ...resources.flatMap((name) => columnsOf(name)),
    {
      title: `${resource} requested %`,
      value: (node) => Math.round((100 * requested(node)) / (node.allocatable[resource] || Infinity)),
    },
    {
      title: "State",
      value: (node) =>
        isBroken(node) ? "failed" : node.unschedulable ? "cordoned" : node.taints.length ? "tainted" : "open",
    },
  ];
  return (
    <Table
      caption="Requested resources per node"
      columns={columns}
      rows={rows}
      rowKey={(node) => node.name}
      file={file}
      selected={selected}
    />
  );
}
