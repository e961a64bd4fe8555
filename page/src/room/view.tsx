/** Room: a heat map of the nodes, what is free where, and how many more pods of common shapes fit. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart } from "../charts/chart";
import { grouped as commas, count, percent } from "../parts/format";
import { RequestResult, useRequest } from "../parts/request";
import { paintStyle } from "../parts/swatch";
import { type Column, Table } from "../parts/table";
import { useNodesVersion, useVersion } from "../plan/changes";
import { SHARES, share } from "../plan/colours";
import { useDevices } from "../plan/devices";
import { grouped } from "../plan/layout";
import { takesPods } from "../plan/model";
import { Choice, groupLabels, resourceOptions, resourcesOf, short, usualGroup } from "../plan/view";
import type { ShapeRoomRecord, UseRecord } from "../protocol";
import { amend, nodeHref } from "../shell/address";
import type { ViewProps } from "../shell/views";
import { type Cell, costOf, type Measure, type Part, partsOf, requestsOf, useOf } from "./heat";

/** Milliseconds between two requests; metrics of nodes are new every 15 s. */
const PAUSE = 2000;
const USE_PAUSE = 15_000;
/** What can be shown of nodes. */
type Shown = "requests" | "use" | "cost";
const NOTHING_MEASURED: UseRecord = { kind: "Use", nodes: {} };

export function RoomView({ source, plan, address }: ViewProps) {
  useDevices(source, plan);
  const version = useVersion(plan);
  const nodesVersion = useNodesVersion(plan);
  const resources = useMemo(() => resourcesOf(plan), [plan, nodesVersion]);
  const labels = useMemo(() => groupLabels(plan), [plan, nodesVersion]);
  const modes = modesOf(source);
  const shown = modes.find(([one]) => one === address.query.get("show"))?.[0] ?? "requests";
  const use = useUse(source, shown === "use");
  // metrics.k8s.io has no others.
  const options = resourceOptions(plan, shown === "use" ? ["cpu", "memory"] : resources);
  const usual =
    options.find(([name]) => name.includes("/")) ?? options.find(([name]) => plan.drivers.has(name)) ?? options[0]!;
  const resource = address.query.get("resource") ?? usual[0];
  const group = address.query.get("group") ?? usualGroup(labels);
  const { prices } = source.about;
  const measure = useMemo((): Measure => {
    if (shown === "use") return useOf(use.answer ?? NOTHING_MEASURED, resource);
    return shown === "cost" ? costOf(plan, prices) : requestsOf(plan, resource);
  }, [plan, shown, resource, use.answer, prices]);
  const parts = useMemo(
    () => partsOf(plan, grouped(plan.nodes.values(), group), measure),
    [plan, version, group, measure],
  );
  return (
    <div class="page wide">
      <h1>Room</h1>
      <div class="tools">
        {modes.length > 1 && (
          <Choice
            label="Show"
            value={shown}
            onChange={(next) => amend(address, { show: next === "requests" ? undefined : next, resource: undefined })}
            options={modes}
          />
        )}
        {shown !== "cost" && (
          <Choice
            label="Resource"
            value={resource}
            onChange={(next) => amend(address, { resource: next })}
            options={options}
          />
        )}
        <Choice
          label="Group by"
          value={group}
          onChange={(next) => amend(address, { group: next })}
          options={[["", "nothing"], ...[...labels.keys()].map((label): [string, string] => [label, short(label)])]}
        />
        <Scale measure={measure} />
      </div>
      {use.error && shown === "use" && (
        <p class="note" role="alert">
          {use.error}
        </p>
      )}
      <section class="card" aria-labelledby="nodes">
        <h2 id="nodes">Nodes by {measure.title}</h2>
        {parts.map((part) => (
          <Heat key={part.name} part={part} measure={measure} label={group} />
        ))}
      </section>
      <section class="card" aria-labelledby="free">
        <h2 id="free">What is {measure.words.free.toLowerCase()}</h2>
        <Table
          caption={`${measure.title} by ${group ? short(group) : "cluster"}`}
          columns={columnsOf(measure, group)}
          rows={parts}
          rowKey={(part) => part.name}
          file="room"
        />
      </section>
      {source.can("room") && <Shapes source={source} plan={plan} />}
    </div>
  );
}

function modesOf(source: ViewProps["source"]): [Shown, string][] {
  return [
    ["requests", "requests"],
    ...(source.can("use") ? [["use", "measured use"] as [Shown, string]] : []),
    ...(Object.keys(source.about.prices).length ? [["cost", "cost"] as [Shown, string]] : []),
  ];
}

/** The measured use, again and again while it is shown. */
function useUse(source: ViewProps["source"], wanted: boolean) {
  const [turn, next] = useState(0);
  useEffect(() => {
    if (!wanted || source.about.mode !== "live") return;
    const timer = setInterval(() => next((before) => before + 1), USE_PAUSE);
    return () => clearInterval(timer);
  }, [source, wanted]);
  return useRequest(async () => (wanted ? source.use() : undefined), [source, wanted, turn]);
}

function Scale({ measure: { title, words } }: { measure: Measure }) {
  const taken = words.taken.toLowerCase();
  return (
    <ul class="legend plain" aria-label={`Share of ${title} that is ${taken}`}>
      <li>
        <span>{taken}:</span>
      </li>
      {SHARES.map(([share, paint]) => (
        <li key={share}>
          <span>
            <span class="swatch painted" style={paintStyle(paint)} /> {share}
          </span>
        </li>
      ))}
      {words.free === "Free" && (
        <li>
          <span>⊘ takes no pods</span>
        </li>
      )}
    </ul>
  );
}

function Heat({ part, measure, label }: { part: Part; measure: Measure; label: string }) {
  const { title, name, words, text } = measure;
  return (
    <section class="heat">
      <h3>
        {part.name || (label ? `without ${short(label)}` : "all nodes")}{" "}
        <span class="muted">
          {part.cells.length
            ? `${text(part.free)} of ${text(part.whole)} ${name} ${words.free.toLowerCase()}`
            : `no node has ${title === "cost" ? "a price" : title}`}
          {part.cells.length > 0 && part.without.length > 0 && `; ${count(part.without.length, "node")} without any`}
        </span>
      </h3>
      <div class="node-cells">
        {part.cells.map((cell) => (
          <a
            key={cell.node.name}
            class="node-cell painted"
            href={nodeHref(cell.node.name)}
            style={paintStyle(share(cell.taken, cell.whole))}
            title={`${cell.node.name}: ${textOf(cell, measure)}`}
            aria-label={`${cell.node.name}: ${textOf(cell, measure)}`}
          >
            <span>{measure.cell(cell)}</span>
          </a>
        ))}
      </div>
    </section>
  );
}

function textOf(cell: Cell, { name, words, text }: Measure): string {
  const [taken, free] = [words.taken.toLowerCase(), words.free.toLowerCase()];
  const rest = free === "free" && !takesPods(cell.node) ? "takes no pods" : `${text(cell.free)} ${free}`;
  // Cells show one of these amounts, or the share: names of links must have their text.
  return `${text(cell.taken)} of ${text(cell.whole)} ${name}, ${percent(cell.taken, cell.whole)} ${taken}, ${rest}`;
}

function columnsOf({ words, resource, text }: Measure, group: string): Column<Part>[] {
  const of = (title: string, value: (part: Part) => number): Column<Part> => ({
    title,
    resource,
    value,
    show: (part) => text(value(part)),
  });
  return [
    { title: group ? short(group) : "Group", value: (part) => part.name || "–" },
    { title: "Nodes with it", value: (part) => part.cells.length },
    { title: "Nodes without", value: (part) => part.without.length },
    of(words.whole, (part) => part.whole),
    of(words.taken, (part) => part.taken),
    { title: `${words.taken} %`, value: (part) => (part.whole ? Math.round((100 * part.taken) / part.whole) : 0) },
    of(words.free, (part) => part.free),
    of("Most on a node", (part) => Math.max(0, ...part.cells.map(({ free }) => free))),
  ];
}

function Shapes({ source, plan }: Pick<ViewProps, "source" | "plan">) {
  const turn = useVersion(plan, PAUSE);
  const request = useRequest(() => source.room(), [source, turn]);
  const columns: Column<ShapeRoomRecord>[] = [
    { title: "Pods like", value: (shape) => shape.name },
    { title: "There are", value: (shape) => shape.seen },
    { title: "More fit", value: (shape) => shape.fits },
    { title: "If all that is free were together", value: (shape) => shape.together },
    {
      title: "Lost",
      value: (shape) => (shape.together ? Math.round(100 * (1 - shape.fits / shape.together)) : 0),
      show: (shape) => (shape.together ? percent(shape.together - shape.fits, shape.together) : "–"),
    },
  ];
  return (
    <section class="card" aria-labelledby="shapes">
      <h2 id="shapes">How many more fit</h2>
      <p class="muted">
        By resources alone, on nodes that take pods. <code>stowplan fit</code> says what moving pods would gain.
      </p>
      <RequestResult request={request} what="the room">
        {(room) => (
          <>
            <Table
              caption={`Shapes of pods, on ${commas(room.nodes)} nodes`}
              columns={columns}
              rows={room.shapes}
              rowKey={(shape) => shape.name}
              file="shapes"
            />
            {Object.keys(room.fragmentation).length > 0 && (
              <p class="muted">
                Free where a typical pod does not fit:{" "}
                {Object.entries(room.fragmentation)
                  .map(([name, part]) => `${name} ${percent(part, 1)}`)
                  .join(", ")}
              </p>
            )}
            <div class="charts">
              {room.charts?.map(
                ({ name, title, caption, chart }) =>
                  chart && <Chart key={title} title={title} caption={caption} chart={chart} file={name ?? title} />,
              )}
            </div>
          </>
        )}
      </RequestResult>
    </section>
  );
}
