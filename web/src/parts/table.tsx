import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { csv } from "../lib/csv";
import { setQuery } from "../lib/route";

/**
 * A table of many rows: only those in sight are in the document. Sort, filter and columns are in the URL (`sort=-cpus`, `q=`,
 * `cols=`). Up, Down, Page Up, Page Down, Home and End move the marked row, Enter opens it.
 */

export interface Column<T> {
  readonly id: string;
  readonly title: string;
  /** For sorting and, unless `text` is there, for filter and CSV. */
  readonly value: (row: T) => string | number;
  readonly text?: (row: T) => string;
  readonly show?: (row: T) => ComponentChildren;
  /** Width in rem. */
  readonly width: number;
  readonly isNumber?: boolean;
  readonly isHidden?: boolean;
}

const ROW_PX = 36;
const MARGIN_ROWS = 12;

function textOf<T>(column: Column<T>, row: T): string {
  return column.text ? column.text(row) : String(column.value(row));
}

/** The rows in which each word of the filter occurs. */
export function filtered<T>(rows: readonly T[], columns: readonly Column<T>[], filter: string): readonly T[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return rows;
  return rows.filter((row) => {
    const text = columns.map((one) => textOf(one, row)).join("\n").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

export function sorted<T>(rows: readonly T[], columns: readonly Column<T>[], order: string): readonly T[] {
  const column = columns.find((one) => one.id === order.replace(/^-/, ""));
  if (!column) return rows;
  const sign = order.startsWith("-") ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: column.value(row) }));
  keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0));
  return keyed.map((one) => one.row);
}

export function Table<T>(props: {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  query: URLSearchParams;
  order: string;
  rowKey: (row: T) => string;
  open?: (row: T) => string;
  isWhole?: boolean;
  empty: ComponentChildren;
  tools?: ComponentChildren;
}): JSX.Element {
  const { query, columns } = props;
  const order = query.get("sort") ?? props.order;
  const chosen = query.get("cols")?.split(",");
  const shown = columns.filter((one) => (chosen ? chosen.includes(one.id) : !one.isHidden));
  const filter = query.get("q") ?? "";
  const rows = useMemo(
    () => sorted(filtered(props.rows, columns, filter), columns, order),
    [props.rows, columns, filter, order],
  );
  return (
    <div class="table-box">
      <div class="tools">
        <input
          type="search" class="search" placeholder="Filter" aria-label={`Filter ${props.label}`} value={filter}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        {props.tools}
        <span class="grow" />
        <output class="faint">{`${rows.length.toLocaleString("en")} of ${props.rows.length.toLocaleString("en")}`}</output>
        <Columns columns={columns} shown={shown} />
        <CopyCsv rows={rows} columns={shown} />
      </div>
      <Grid {...props} rows={rows} shown={shown} order={order} />
    </div>
  );
}

function Columns<T>({ columns, shown }: { columns: readonly Column<T>[]; shown: readonly Column<T>[] }): JSX.Element {
  const choose = (id: string, isOn: boolean): void => {
    const ids = columns.filter((one) => (one.id === id ? isOn : shown.includes(one))).map((one) => one.id);
    if (ids.length) setQuery({ cols: ids.join(",") });
  };
  return (
    <details class="menu">
      <summary>Columns</summary>
      <div class="menu-box">
        {columns.map((one) => (
          <label key={one.id}>
            <input type="checkbox" checked={shown.includes(one)} onChange={(event) => choose(one.id, event.currentTarget.checked)} />
            {one.title}
          </label>
        ))}
      </div>
    </details>
  );
}

function CopyCsv<T>({ rows, columns }: { rows: readonly T[]; columns: readonly Column<T>[] }): JSX.Element {
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    const lines = [columns.map((one) => one.title), ...rows.map((row) => columns.map((one) => textOf(one, row)))];
    try {
      await navigator.clipboard.writeText(csv(lines));
      setSaid("Copied");
    } catch {
      setSaid("Not allowed");
    }
  };
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <button type="button" onClick={() => void copy()}>
      <span aria-live="polite">{said || "Copy CSV"}</span>
    </button>
  );
}

function Grid<T>(props: {
  label: string;
  rows: readonly T[];
  shown: readonly Column<T>[];
  order: string;
  rowKey: (row: T) => string;
  open?: (row: T) => string;
  isWhole?: boolean;
  empty: ComponentChildren;
}): JSX.Element {
  const { rows, shown } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [marked, setMarked] = useState(-1);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const first = props.isWhole ? 0 : Math.max(0, Math.floor(view.top / ROW_PX) - MARGIN_ROWS);
  const last = props.isWhole ? rows.length : Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + MARGIN_ROWS);
  const move = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(view.height / ROW_PX) - 2);
    const steps: Record<string, number> = {
      ArrowDown: marked + 1, ArrowUp: marked - 1, PageDown: marked + page, PageUp: marked - page, Home: 0, End: rows.length - 1,
    };
    const to = steps[event.key];
    const row = rows[marked];
    if (event.key === "Enter" && row !== undefined && props.open && event.target === box.current) location.hash = props.open(row);
    if (to === undefined || !rows.length) return;
    event.preventDefault();
    const at = Math.min(rows.length - 1, Math.max(0, to));
    setMarked(at);
    const element = box.current;
    if (!element || props.isWhole) return;
    const y = at * ROW_PX;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + 2 * ROW_PX > element.scrollTop + view.height) element.scrollTop = y + 2 * ROW_PX - view.height;
  };
  const width = shown.reduce((sum, one) => sum + one.width, 0);
  return (
    <div
      ref={box} class={`grid ${props.isWhole ? "whole" : ""}`} tabIndex={0} role="region" aria-label={props.label} onKeyDown={move}
    >
      <table style={{ minWidth: `${width}rem` }} aria-rowcount={rows.length + 1}>
        <colgroup>
          {shown.map((one) => <col key={one.id} style={{ width: `${one.width}rem` }} />)}
        </colgroup>
        <thead>
          <tr>{shown.map((one) => <Head key={one.id} column={one} order={props.order} />)}</tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="space" aria-hidden="true" style={{ height: `${first * ROW_PX}px` }} />}
          {rows.slice(first, last).map((row, index) => (
            <tr
              key={props.rowKey(row)} class={marked === first + index ? "marked" : ""} aria-rowindex={first + index + 2}
              onClick={() => setMarked(first + index)} onDblClick={() => { if (props.open) location.hash = props.open(row); }}
            >
              {shown.map((one) => (
                <td key={one.id} class={one.isNumber ? "number" : ""} title={textOf(one, row)}>
                  {one.show ? one.show(row) : textOf(one, row)}
                </td>
              ))}
            </tr>
          ))}
          {last < rows.length && <tr class="space" aria-hidden="true" style={{ height: `${(rows.length - last) * ROW_PX}px` }} />}
        </tbody>
      </table>
      {!rows.length && <p class="empty">{props.empty}</p>}
    </div>
  );
}

function Head<T>({ column, order }: { column: Column<T>; order: string }): JSX.Element {
  const isOn = order.replace(/^-/, "") === column.id;
  const isDown = isOn && order.startsWith("-");
  return (
    <th scope="col" class={column.isNumber ? "number" : ""} aria-sort={isOn ? (isDown ? "descending" : "ascending") : "none"}>
      <button type="button" onClick={() => setQuery({ sort: isOn && !isDown ? `-${column.id}` : column.id })}>
        {column.title}
        <span aria-hidden="true">{isOn ? (isDown ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}
