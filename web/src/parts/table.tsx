import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { csv } from "../lib/csv";
import { setQuery } from "../lib/route";
import { type Column, Grid, textOf } from "./grid";

/**
 * A table of many rows. Sort, filter and columns are in the URL (`sort=-cpus`, `q=`, `cols=`). Up, Down, Page Up, Page Down, Home and End move the marked row, Enter opens it.
 */

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
  const filter = query.get("q") ?? "";
  const rows = useMemo(
    () => sorted(filtered(props.rows, columns, filter), columns, order),
    [props.rows, columns, filter, order],
  );
  const shown = useShown(columns, query);
  return (
    <TableBox
      {...props} shown={shown} all={() => Promise.resolve(rows)}
      counted={`${rows.length.toLocaleString("en")} of ${props.rows.length.toLocaleString("en")}`}
    >
      <Grid {...props} rows={{ list: `${order}?${filter}`, length: rows.length, first: 0, here: rows }} shown={shown} order={order} />
    </TableBox>
  );
}

/** The columns that the address names, or those that are shown without it; the same list as long as they are the same. */
export function useShown<T>(columns: readonly Column<T>[], query: URLSearchParams): readonly Column<T>[] {
  const named = query.get("cols");
  return useMemo(() => {
    const chosen = named?.split(",");
    return columns.filter((one) => (chosen ? chosen.includes(one.id) : !one.isHidden));
  }, [columns, named]);
}

/** A table's rows with what is above them: filter, tools, columns, copy. `all`: the rows to be copied. */
export function TableBox<T>(props: {
  label: string;
  columns: readonly Column<T>[];
  shown: readonly Column<T>[];
  query: URLSearchParams;
  counted: string;
  all: () => Promise<readonly T[]>;
  isUnsearched?: boolean;
  tools?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="table-box">
      <div class="tools">
        {!props.isUnsearched && (
          <input
            type="search" class="search" placeholder="Filter" aria-label={`Filter ${props.label}`} value={props.query.get("q") ?? ""}
            onInput={(event) => setQuery({ q: event.currentTarget.value })}
          />
        )}
        {props.tools}
        <span class="grow" />
        <output class="faint">{props.counted}</output>
        <Columns columns={props.columns} shown={props.shown} />
        <CopyCsv all={props.all} columns={props.shown} />
      </div>
      {props.children}
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

function CopyCsv<T>({ all, columns }: { all: () => Promise<readonly T[]>; columns: readonly Column<T>[] }): JSX.Element {
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    try {
      const rows = await all();
      const lines = [columns.map((one) => one.title), ...rows.map((row) => columns.map((one) => textOf(one, row)))];
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

