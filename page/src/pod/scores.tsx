/** Scores of feasible nodes: stacked bars, best first, and the whole matrix as a table. */
import { useMemo, useState } from "preact/hooks";
import { byName, count, grouped } from "../parts/format";
import { framed } from "../parts/framed";
import { type Drawn, PictureButtons } from "../parts/pictures";
import { paintStyle, Swatch } from "../parts/swatch";
import { type Column, Table } from "../parts/table";
import { kindPaint } from "../plan/colours";
import type { VerdictRecord } from "../protocol";
import { nodeHref } from "../shell/address";

const SHOWN = 20;

export function Scores({ verdict }: { verdict: VerdictRecord }) {
  const [asTable, setTable] = useState(false);
  const { rows, plugins, same } = useMemo(() => ranked(verdict), [verdict]);
  const most = Math.max(1, ...rows.map((row) => plugins.reduce((sum, plugin) => sum + (row.points[plugin] ?? 0), 0)));
  const columns: Column<Row>[] = [
    { title: "Node", value: (row) => row.node, show: (row) => <a href={nodeHref(row.node)}>{row.node}</a> },
    { title: "Total", value: (row) => row.total },
    ...plugins.map((plugin): Column<Row> => ({ title: plugin, value: (row) => row.points[plugin] ?? 0 })),
  ];
  return (
    <section class="card" aria-labelledby="scores">
      <h2 id="scores">
        Points{" "}
        <button type="button" class="small" aria-pressed={asTable} onClick={() => setTable(!asTable)}>
          Node by node
        </button>{" "}
        <PictureButtons
          file="points"
          of="Points"
          small
          draw={() => picture(verdict, rows.slice(0, SHOWN), plugins, most)}
        />
      </h2>
      {asTable ? (
        <Table
          caption="Points of each node by plugin"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.node}
          file="points"
          selected={verdict.node}
        />
      ) : (
        <>
          <ul class="legend plain" aria-label="Plugins">
            {plugins.map((plugin, i) => (
              <li key={plugin}>
                <span>
                  <Swatch paint={kindPaint(i)} /> {plugin}
                </span>
              </li>
            ))}
          </ul>
          <ol class="scores">
            {rows.slice(0, SHOWN).map((row) => (
              <li key={row.node} data-winner={row.node === verdict.node || undefined}>
                <a href={nodeHref(row.node)}>{row.node}</a>
                <span
                  class="stack"
                  role="img"
                  aria-label={plugins.map((plugin) => `${plugin} ${row.points[plugin] ?? 0}`).join(", ")}
                >
                  {plugins.map((plugin, i) => (
                    <span
                      key={plugin}
                      class="painted"
                      title={`${plugin}: ${row.points[plugin] ?? 0}`}
                      style={{ ...paintStyle(kindPaint(i)), width: `${(100 * (row.points[plugin] ?? 0)) / most}%` }}
                    />
                  ))}
                </span>
                <span class="number">{grouped(row.total)}</span>
              </li>
            ))}
          </ol>
          {rows.length > SHOWN && <p class="muted">{others(rows)}</p>}
          {same.length > 0 && (
            <p class="muted">
              The same for all: {same.map((plugin) => `${plugin} ${grouped(rows[0]?.points[plugin] ?? 0)}`).join(", ")}
            </p>
          )}
        </>
      )}
    </section>
  );
}

interface Row {
  node: string;
  total: number;
  points: Record<string, number>;
}

function ranked(verdict: VerdictRecord): { rows: Row[]; plugins: string[]; same: string[] } {
  const scores = verdict.scores ?? {};
  const rows = Object.entries(verdict.totals ?? {}).map(([node, total]) => ({
    node,
    total,
    points: scores[node] ?? {},
  }));
  const first = (row: Row) => (row.node === verdict.node ? 0 : 1);
  rows.sort((one, other) => other.total - one.total || first(one) - first(other) || byName(one.node, other.node));
  const weight = new Map<string, number>();
  for (const row of rows)
    for (const [plugin, points] of Object.entries(row.points)) weight.set(plugin, (weight.get(plugin) ?? 0) + points);
  // Omits plugins that give all nodes the same: they decide nothing, and hide what does.
  const constant = (plugin: string) => new Set(rows.map((row) => row.points[plugin] ?? 0)).size === 1;
  const plugins = [...weight]
    .filter(([plugin, sum]) => sum !== 0 && (rows.length < 2 || !constant(plugin)))
    .sort(([a, one], [b, other]) => other - one || byName(a, b))
    .map(([plugin]) => plugin);
  const same = [...weight.keys()].filter((plugin) => weight.get(plugin) && !plugins.includes(plugin)).sort(byName);
  return { rows, plugins, same };
}

/** About the nodes that are not shown. */
function others(rows: Row[]): string {
  const [last, left] = [rows[SHOWN - 1]!.total, rows.slice(SHOWN)];
  const equal = left.filter(({ total }) => total === last).length;
  const fewer = left.length - equal;
  const parts = [equal && `${count(equal, "node")} with as many points`, fewer && `${count(fewer, "node")} with fewer`];
  return `and ${parts.filter(Boolean).join(", ")}`;
}

function picture(verdict: VerdictRecord, rows: Row[], plugins: string[], most: number): Drawn {
  const legend = plugins.map((name, i) => ({ name, paint: kindPaint(i) }));
  const head = { title: `Points of nodes for ${verdict.pod}`, lines: [], legend };
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  return framed(head, 880, 22 * rows.length, (pen) =>
    rows.forEach((row, at) => {
      const y = 22 * at;
      pen.text(0, y + 13, row.node, 12, ink, { room: 190 });
      let left = 200;
      plugins.forEach((plugin, i) => {
        const width = (600 * (row.points[plugin] ?? 0)) / most;
        if (width > 0) pen.box(left, y, width, 17, kindPaint(i), 1);
        left += width;
      });
      pen.text(left + 8, y + 13, grouped(row.total), 12, ink);
    }),
  );
}
