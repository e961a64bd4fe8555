/** A sortable table with CSV export for up to a hundred thousand rows: only visible rows are in the DOM. */
import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { byName, count, grouped, unitOf } from "./format";
import { type Cell, csv, saveText } from "./save";

export interface Column<Row> {
  title: string;
  /** Whose amounts the values are: a file names the unit. */
  resource?: string;
  /** The value for sorting and CSV. */
  value: (row: Row) => Cell;
  /** The content of the cell, if different. */
  show?: (row: Row) => ComponentChildren;
  /** For sentences: gets the remaining width, and a tooltip with the full text. */
  long?: boolean;
}

interface Props<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** The name of the CSV file without its extension. */
  file: string;
  selected?: string;
}

const HEIGHT = 30;
const SPARE = 12;
const FEW = 60;

function headOf<Row>({ title, resource }: Column<Row>): string {
  const unit = resource && unitOf(resource);
  return unit ? `${title} (${unit})` : title;
}

export function Table<Row>({ caption, columns, rows, rowKey, file, selected }: Props<Row>) {
  const [sort, setSort] = useState<[number, boolean] | null>(null);
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const ordered = useMemo(() => {
    if (!sort) return rows;
    const value = columns[sort[0]]!.value;
    const sign = sort[1] ? -1 : 1;
    return [...rows].sort((one, other) => sign * compared(value(one), value(other)));
  }, [rows, sort]);
  const few = ordered.length <= FEW;
  const height = box.current?.clientHeight || 600;
  const first = few ? 0 : Math.max(0, Math.floor(top / HEIGHT) - SPARE);
  const last = few ? ordered.length : Math.min(ordered.length, Math.ceil((top + height) / HEIGHT) + SPARE);
  const numeric = columns.map((column) => rows.length > 0 && typeof column.value(rows[0]!) === "number");
  const download = () =>
    saveText(
      `${file}.csv`,
      csv([columns.map(headOf), ...ordered.map((row) => columns.map((column) => column.value(row)))]),
      "text/csv",
    );
  return (
    <div class="table">
      <div class="table-tools">
        <span class="muted">{count(rows.length, "row")}</span>
        <button type="button" onClick={download} disabled={!rows.length}>
          Save as CSV
        </button>
      </div>
      <div
        class="table-scroll"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label={caption}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <table aria-rowcount={ordered.length + 1}>
          <caption class="visually-hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column, i) => (
                <th
                  key={column.title}
                  scope="col"
                  class={numeric[i] ? "number" : undefined}
                  aria-sort={sort?.[0] === i ? (sort[1] ? "descending" : "ascending") : "none"}
                >
                  <button type="button" class="quiet" onClick={() => setSort([i, sort?.[0] === i ? !sort[1] : false])}>
                    {column.title}
                    <span aria-hidden="true">{sort?.[0] === i ? (sort[1] ? " ▾" : " ▴") : ""}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <tr aria-hidden="true" style={{ height: `${first * HEIGHT}px` }} />}
            {ordered.slice(first, last).map((row, i) => {
              const key = rowKey(row);
              return (
                <tr key={key} aria-rowindex={first + i + 2} aria-selected={key === selected || undefined}>
                  {columns.map((column, at) => (
                    <td
                      key={column.title}
                      class={numeric[at] ? "number" : column.long ? "long" : undefined}
                      title={column.long ? String(column.value(row)) : undefined}
                    >
                      {column.show ? column.show(row) : shown(column.value(row))}
                    </td>
                  ))}
                </tr>
              );
            })}
            {last < ordered.length && (
              <tr aria-hidden="true" style={{ height: `${(ordered.length - last) * HEIGHT}px` }} />
            )}
          </tbody>
        </table>
      </div>
    </div>
  );
}

/** Also for tables with markup of their own. */
export function CsvButton({ file, rows, of }: { file: string; rows: () => Cell[][]; of: string }) {
  return (
    <button
      type="button"
      class="small"
      aria-label={`${of} as CSV`}
      onClick={() => saveText(`${file}.csv`, csv(rows()), "text/csv")}
    >
      CSV
    </button>
  );
}

function shown(value: Cell): string {
  return typeof value === "number" ? grouped(value) : value;
}

function compared(one: Cell, other: Cell): number {
  return typeof one === "number" && typeof other === "number" ? one - other : byName(String(one), String(other));
}
