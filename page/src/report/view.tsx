/** The report of a simulation, a comparison or a search: facts, charts and tables that Python has chosen. */
import { Chart } from "../charts/chart";
import { Table } from "../parts/table";
import type { SectionRecord, TableRecord } from "../protocol";
import type { ViewProps } from "../shell/views";

export function ReportView({ source }: ViewProps) {
  const report = source.report!;
  return (
    <article class="page report">
      <h1>{report.title}</h1>
      {report.lines?.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {report.headline && <p class="verdict waits">{report.headline}</p>}
      {report.facts && (
        <dl class="report-facts">
          {report.facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {report.notes?.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
      {report.sections?.map((section) => (
        <Section key={section.title} section={section} />
      ))}
    </article>
  );
}

function Section({ section: { name = "", title, caption, chart, table, folded } }: { section: SectionRecord }) {
  if (folded && table)
    return (
      <details>
        <summary>{title}</summary>
        <Rows title={title} file={name} table={table} />
      </details>
    );
  return (
    <section class="card" id={name || undefined}>
      {chart ? <Chart title={title} caption={caption} chart={chart} file={name} /> : <h2>{title}</h2>}
      {!chart && caption && <p class="muted">{caption}</p>}
      {table && <Rows title={title} file={name} table={table} />}
    </section>
  );
}

function Rows({ title, file, table: { head, rows } }: { title: string; file: string; table: TableRecord }) {
  const columns = head.map((column, i) => ({ title: column, value: (row: string[]) => row[i]! }));
  return <Table caption={title} columns={columns} rows={rows} rowKey={(row) => row.join(" ")} file={file} />;
}
