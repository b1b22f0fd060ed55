import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { type ApiError, read } from "../api/client";
import { useAnswer } from "../api/live";
import { count } from "../lib/units";
import { Pending } from "./bits";
import { type Column, Grid, type Rows } from "./grid";
import { shownOf, TableBox } from "./table";

/** A table of which the daemon filters and sorts the rows, and sends those around the ones in sight. */

/** A column by which the daemon sorts. */
export interface OrderedColumn<T> extends Column<T> {
  readonly order: string;
}

interface WindowAnswer {
  readonly total: number | null;
}

/** Rows that are asked for: a multiple of STEP begins, so that scrolling asks rarely. */
const STEP = 200;
const COUNT = 600;
/** What is typed is asked for when no key was pressed for so long. */
const TYPING_MS = 250;
/** As the daemon gives at most, and rows that are copied at most. */
const PAGE_ROWS = 1000;
export const COPIED_MAX = 20000;

/** The first row to be asked for when these are in sight; the present one serves as long as they are in it. */
export function windowFrom(present: number, first: number, last: number): number {
  const isInside = first >= present && last <= present + COUNT;
  return isInside ? present : Math.max(0, Math.floor((first - STEP) / STEP) * STEP);
}

/** A value once it has not changed for a while. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (value === settled) return;
    const timer = setTimeout(() => setSettled(value), TYPING_MS);
    return () => clearTimeout(timer);
  }, [value, settled]);
  return settled;
}

function pathOf(path: string, filter: Record<string, string>, more: Record<string, string | number>): string {
  const query = new URLSearchParams(Object.entries(filter).filter((one) => one[1]));
  for (const [name, value] of Object.entries(more)) if (value !== "") query.set(name, String(value));
  return `${path}?${query}`;
}

export function WindowTable<T, A extends WindowAnswer>(props: {
  label: string;
  /** What one row is: `job`. */
  noun: string;
  path: string;
  filter: Record<string, string>;
  rowsOf: (answer: A) => readonly T[];
  columns: readonly OrderedColumn<T>[];
  query: URLSearchParams;
  order: string;
  /** Rows are asked for again at most so often. */
  everyMs?: number;
  /** The daemon does not search these rows. */
  isUnsearched?: boolean;
  rowKey: (row: T) => string;
  open?: (row: T) => string;
  empty: ComponentChildren;
  tools?: ComponentChildren;
}): JSX.Element {
  const { query, columns, path, filter, rowsOf } = props;
  const order = query.get("sort") ?? props.order;
  const column = columns.find((one) => one.id === order.replace(/^-/, ""));
  const search = useSettled((query.get("q") ?? "").trim());
  const wanted = { order: column ? `${order.startsWith("-") ? "-" : ""}${column.order}` : "", search };
  const list = pathOf(path, filter, wanted);
  const [from, setFrom] = useState(0);
  const look = useCallback((first: number, last: number) => setFrom((present) => windowFrom(present, first, last)), []);
  const { rows, error } = useWindow<T, A>(pathOf(path, filter, { ...wanted, first: from, count: COUNT }), from, rowsOf, props.everyMs);
  const all = useCallback(async () => {
    const found: T[] = [];
    while (found.length < COPIED_MAX) {
      const page = await read<A>(`${list}&first=${found.length}&count=${PAGE_ROWS}`);
      const more = page ? rowsOf(page.data) : [];
      found.push(...more);
      if (more.length < PAGE_ROWS) break;
    }
    return found;
  }, [list, rowsOf]);
  const shown = shownOf(columns, query);
  if (!rows) return <Pending error={error} what={props.label} />;
  return (
    <TableBox {...props} shown={shown} all={all} counted={count(rows.length, props.noun)}>
      {error && error.status >= 400 && error.status < 500
        ? <Pending error={error} what={props.label} />
        : <Grid {...props} rows={rows} shown={shown} order={order} look={look} />}
    </TableBox>
  );
}

/** The rows of a path; those of the former one stay until they are here. */
function useWindow<T, A extends WindowAnswer>(
  path: string, from: number, rowsOf: (answer: A) => readonly T[], everyMs = 0,
): { rows: Rows<T> | undefined; error: ApiError | null } {
  const answer = useAnswer<A>(path, everyMs);
  const last = useRef<{ data: A; rows: Rows<T> } | null>(null);
  if (answer.data && answer.data !== last.current?.data) {
    last.current = { data: answer.data, rows: { length: answer.data.total ?? 0, first: from, here: rowsOf(answer.data) } };
  }
  return { rows: last.current?.rows, error: answer.error };
}
