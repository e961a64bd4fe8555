/** Room: a heat map of the nodes by a resource, what is free where, and how many more pods of common shapes fit. */
import { useMemo } from "preact/hooks";
import { Chart } from "../charts/chart";
import { amount, grouped as commas, count, percent } from "../parts/format";
import { RequestResult, useRequest } from "../parts/request";
import { paintStyle } from "../parts/swatch";
import { type Column, Table } from "../parts/table";
import { useNodesVersion, useVersion } from "../plan/changes";
import { SHARES, share } from "../plan/colours";
import { useDevices } from "../plan/devices";
import { grouped } from "../plan/layout";
import { takesPods } from "../plan/model";
import { Choice, groupLabels, resourceOptions, resourcesOf, short, usualGroup } from "../plan/view";
import type { ShapeRoomRecord } from "../protocol";
import { amend, nodeHref } from "../shell/address";
import type { ViewProps } from "../shell/views";
import { type Cell, type Part, partsOf } from "./heat";
import { Trend } from "./trend";

/** Milliseconds between two requests. */
const PAUSE = 2000;

export function RoomView({ source, plan, address }: ViewProps) {
  useDevices(source, plan);
  const version = useVersion(plan);
  const nodesVersion = useNodesVersion(plan);
  const resources = useMemo(() => resourcesOf(plan), [plan, nodesVersion]);
  const labels = useMemo(() => groupLabels(plan), [plan, nodesVersion]);
  const options = resourceOptions(plan, resources);
  // Extended resources, then devices.
  const resource =
    address.query.get("resource") ??
    resources.find((name) => name.includes("/")) ??
    resources.find((name) => plan.drivers.has(name)) ??
    "cpu";
  const group = address.query.get("group") ?? usualGroup(labels);
  const parts = useMemo(
    () => partsOf(plan, grouped(plan.nodes.values(), group), resource),
    [plan, version, group, resource],
  );
  return (
    <div class="page wide">
      <h1>Room</h1>
      <div class="tools">
        <Choice
          label="Resource"
          value={resource}
          onChange={(next) => amend(address, { resource: next })}
          options={options}
        />
        <Choice
          label="Group by"
          value={group}
          onChange={(next) => amend(address, { group: next })}
          options={[["", "nothing"], ...[...labels.keys()].map((label): [string, string] => [label, short(label)])]}
        />
        <Scale resource={resource} />
      </div>
      <section class="card" aria-labelledby="nodes">
        <h2 id="nodes">Nodes by {resource}</h2>
        {parts.map((part) => (
          <Heat key={part.name} part={part} resource={resource} label={group} />
        ))}
      </section>
      <section class="card" aria-labelledby="free">
        <h2 id="free">What is free</h2>
        <Table
          caption={`${resource} by ${group ? short(group) : "cluster"}`}
          columns={columnsOf(resource, group)}
          rows={parts}
          rowKey={(part) => part.name}
          file="room"
        />
      </section>
      {source.can("room") && <Shapes source={source} plan={plan} />}
    </div>
  );
}

function Scale({ resource }: { resource: string }) {
  return (
    <ul class="legend plain" aria-label={`Share of ${resource} that is requested`}>
      <li>
        <span>requested:</span>
      </li>
      {SHARES.map(([name, paint]) => (
        <li key={name}>
          <span>
            <span class="swatch painted" style={paintStyle(paint)} /> {name}
          </span>
        </li>
      ))}
      <li>
        <span>⊘ takes no pods</span>
      </li>
    </ul>
  );
}

function Heat({ part, resource, label }: { part: Part; resource: string; label: string }) {
  return (
    <section class="heat">
      <h3>
        {part.name || (label ? `without ${short(label)}` : "all nodes")}{" "}
        <span class="muted">
          {part.cells.length
            ? `${amount(resource, part.free)} of ${amount(resource, part.whole)} ${resource} free`
            : `no node has ${resource}`}
          {part.cells.length > 0 && part.without.length > 0 && `; ${count(part.without.length, "node")} without any`}
        </span>
      </h3>
      <div class="node-cells">
        {part.cells.map((cell) => (
          <a
            key={cell.node.name}
            class="node-cell painted"
            href={nodeHref(cell.node.name)}
            style={paintStyle(share(cell.requested, cell.whole))}
            title={`${cell.node.name}: ${textOf(cell, resource)}`}
            aria-label={`${cell.node.name}: ${textOf(cell, resource)}`}
          >
            <span>{takesPods(cell.node) ? amount(resource, cell.free) : "⊘"}</span>
          </a>
        ))}
      </div>
    </section>
  );
}

function textOf(cell: Cell, resource: string): string {
  const free = takesPods(cell.node) ? `${amount(resource, cell.free)} free` : "takes no pods";
  return `${amount(resource, cell.requested)} of ${amount(resource, cell.whole)} ${resource} requested, ${free}`;
}

function columnsOf(resource: string, group: string): Column<Part>[] {
  const of = (title: string, value: (part: Part) => number): Column<Part> => ({
    title,
    resource,
    value,
    show: (part) => amount(resource, value(part)),
  });
  return [
    { title: group ? short(group) : "Group", value: (part) => part.name || "–" },
    { title: "Nodes with it", value: (part) => part.cells.length },
    { title: "Nodes without", value: (part) => part.without.length },
    of("Allocatable", (part) => part.whole),
    of("Requested", (part) => part.requested),
    { title: "Requested %", value: (part) => (part.whole ? Math.round((100 * part.requested) / part.whole) : 0) },
    of("Free", (part) => part.free),
    of("Most on a node", (part) => Math.max(0, ...part.cells.map(({ free }) => free))),
  ];
}

function Shapes({ source, plan }: Pick<ViewProps, "source" | "plan">) {
  const turn = useVersion(plan, PAUSE);
  const request = useRequest(() => source.room(), [source, turn]);
  const trend = useMemo(() => new Trend(), [source]);
  const { answer } = request;
  useMemo(() => answer && trend.add(answer, Date.now()), [trend, answer]);
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
            {trend.moments > 1 && (
              <Chart
                title="Lost over time"
                caption="The share of the room that is not where such pods fit."
                chart={trend.chart()}
                file="room-over-time"
              />
            )}
          </>
        )}
      </RequestResult>
    </section>
  );
}
