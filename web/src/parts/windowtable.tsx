import type { ComponentChildren, JSX } from "preact";
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { type ApiError, read } from "../api/client";
import { type Answer, useAnswer } from "../api/live";
import { count } from "../lib/units";
import { Pending } from "./bits";
import { type Column, Grid, type Rows } from "./grid";
import { TableBox, useShown } from "./table";

/** A table of which the daemon filters and sorts the rows, and sends those around the ones in sight. */

/** A column by which the daemon sorts. */
export interface OrderedColumn<T> extends Column<T> {
  readonly order: string;
}

interface WindowAnswer {
  readonly total: number | null;
}

/** Rows that are asked for: a multiple of STEP begins, so that scrolling asks rarely. */
const STEP = 100;
const COUNT = 300;
/** As the daemon gives at most, and rows that are copied at most. */
const PAGE_ROWS = 1000;
export const COPIED_MAX = 20000;

/** The first row to be asked for when these are in sight; the present one serves as long as they are in it. */
export function windowFrom(present: number, first: number, last: number): number {
  const isInside = first >= present && last <= present + COUNT;
  return isInside ? present : Math.max(0, Math.floor((first - STEP) / STEP) * STEP);
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
  const search = (query.get("q") ?? "").trim();
  const list = pathOf(path, filter, { order: column ? `${order.startsWith("-") ? "-" : ""}${column.order}` : "", search });
  const [seen, setSeen] = useState({ list, from: 0 });
  const from = seen.list === list ? seen.from : 0; // another list is shown from its begin
  const look = useCallback(
    (first: number, last: number) => setSeen((present) => {
      const found = windowFrom(present.list === list ? present.from : 0, first, last);
      return present.list === list && present.from === found ? present : { list, from: found };
    }),
    [list],
  );
  const { rows, error } = useWindow<T, A>(list, from, rowsOf, props.everyMs ?? 0);
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
  const shown = useShown(columns, query);
  const isBusy = rows?.list !== list;
  if (!rows) return <Pending error={error} what={props.label} />;
  return (
    <TableBox {...props} shown={shown} all={all} counted={count(rows.length, props.noun)}>
      {error && error.status >= 400 && error.status < 500
        ? <Pending error={error} what={props.label} />
        : <Grid {...props} rows={rows} shown={shown} order={order} isBusy={isBusy} look={isBusy ? undefined : look} />}
    </TableBox>
  );
}

/** The part of a list that is asked for. */
interface Place {
  readonly list: string;
  readonly from: number;
}

/** Rows of a list; those of the former one stay until they are here. */
function useWindow<T, A extends WindowAnswer>(
  list: string, from: number, rowsOf: (answer: A) => readonly T[], everyMs: number,
): { rows: Rows<T> | undefined; error: ApiError | null } {
  const [place, answer] = useLastWanted<A>(list, from, everyMs);
  const last = useRef<{ data: A; rows: Rows<T> } | null>(null);
  if (answer.data && answer.data !== last.current?.data) {
    const rows = { list: place.list, length: answer.data.total ?? 0, first: place.from, here: rowsOf(answer.data) };
    last.current = { data: answer.data, rows };
  }
  return { rows: last.current?.rows, error: answer.error };
}

/**
 * The answer for a place, one request at a time: what is typed or scrolled over while an answer is on its way is asked for after
 * it, and of all that only the last. So a quick daemon answers each key, and a slow one is not asked for what nobody waits for.
 */
function useLastWanted<A>(list: string, from: number, everyMs: number): readonly [Place, Answer<A>] {
  const wanted = useMemo((): Place => ({ list, from }), [list, from]);
  const [place, setPlace] = useState(wanted);
  const answer = useAnswer<A>(`${place.list}&first=${place.from}&count=${COUNT}`, everyMs);
  const isOnItsWay = answer.data === undefined && !answer.error;
  useLayoutEffect(() => { // before the next frame: it has nothing that is waited for
    if (!isOnItsWay) setPlace(wanted);
  }, [wanted, isOnItsWay]);
  return [place, answer];
}
