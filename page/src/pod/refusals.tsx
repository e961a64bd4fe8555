/** Why nodes refuse a pod: grouped by the reason, and each node by the plugin that refused it first. */
import { useState } from "preact/hooks";
import { byName, count, grouped } from "../parts/format";
import { type Column, Table } from "../parts/table";
import type { StatusRecord, VerdictRecord } from "../protocol";
import { nodeHref } from "../shell/address";

export function Refusals({ verdict }: { verdict: VerdictRecord }) {
  const [asTable, setTable] = useState(false);
  const refusals = verdict.refusals ?? [];
  const rejected = Object.entries(verdict.rejected ?? {});
  const most = Math.max(1, ...refusals.map((one) => one.nodes));
  return (
    <section class="card" aria-labelledby="refusals">
      <h2 id="refusals">
        Refused by{" "}
        {count(
          refusals.reduce((sum, one) => sum + one.nodes, 0),
          "node",
        )}
        {rejected.length > 0 && (
          <button type="button" class="small" aria-pressed={asTable} onClick={() => setTable(!asTable)}>
            Node by node
          </button>
        )}
      </h2>
      {asTable ? (
        <Matrix rejected={rejected} />
      ) : (
        <ul class="refusals">
          {refusals.map((one, i) => (
            <li key={i}>
              <span class="bar" style={{ width: `${(100 * one.nodes) / most}%` }} aria-hidden="true" />
              <span class="number">{grouped(one.nodes)}</span>
              <span>
                <strong>{one.plugin}</strong> {one.reasons.join("; ")}
                {one.code === "UnschedulableAndUnresolvable" && <span class="chip aside">preemption cannot help</span>}
                {one.detail && <span class="muted"> {one.detail}</span>}
                <span class="names">
                  {one.names.map((name) => (
                    <a key={name} href={nodeHref(name)}>
                      {name}
                    </a>
                  ))}
                  {one.nodes > one.names.length && (
                    <span class="muted">and {grouped(one.nodes - one.names.length)} more</span>
                  )}
                </span>
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

type Row = [string, StatusRecord];

/** Nodes by plugins, with a mark in the column of the plugin that rejected the node. */
function Matrix({ rejected }: { rejected: Row[] }) {
  const plugins = [...new Set(rejected.map(([, status]) => status.plugin))].sort(byName);
  const columns: Column<Row>[] = [
    { title: "Node", value: ([node]) => node, show: ([node]) => <a href={nodeHref(node)}>{node}</a> },
    ...plugins.map(
      (plugin): Column<Row> => ({ title: plugin, value: ([, status]) => (status.plugin === plugin ? "✕" : "") }),
    ),
    { title: "Reason", value: ([, status]) => status.reasons.join("; ") },
    { title: "Detail", value: ([, status]) => status.detail ?? "" },
  ];
  return (
    <Table
      caption="Nodes and the plugin that refused the pod"
      columns={columns}
      rows={rejected}
      rowKey={([node]) => node}
      file="refusals"
    />
  );
}
