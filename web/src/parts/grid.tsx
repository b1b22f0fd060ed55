import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { setQuery } from "../lib/route";

/** Rows and heads of a table: only the rows in sight are in the document. */

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
  /** Rows are not sorted by it. */
  readonly isUnordered?: boolean;
}

/** `length` rows, of which those from `first` on are here. `list`: what they are rows of; another one is shown from its begin. */
export interface Rows<T> {
  readonly list: string;
  readonly length: number;
  readonly first: number;
  readonly here: readonly T[];
}

function at<T>(rows: Rows<T>, index: number): T | undefined {
  return rows.here[index - rows.first];
}

function range(first: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
}

const ROW_PX = 36;
const MARGIN_ROWS = 12;

export function textOf<T>(column: Column<T>, row: T): string {
  return column.text ? column.text(row) : String(column.value(row));
}

export function Grid<T>(props: {
  label: string;
  rows: Rows<T>;
  shown: readonly Column<T>[];
  order: string;
  rowKey: (row: T) => string;
  open?: (row: T) => string;
  isWhole?: boolean;
  /** Other rows than these are on their way. */
  isBusy?: boolean;
  /** Says which rows are in sight. */
  look?: ((first: number, last: number) => void) | undefined;
  empty: ComponentChildren;
}): JSX.Element {
  const { rows, shown, look } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [marked, setMarked] = useState(-1);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  const list = useRef(rows.list);
  const top = list.current === rows.list ? view.top : 0;
  useLayoutEffect(() => {
    if (list.current === rows.list) return;
    list.current = rows.list;
    if (box.current) box.current.scrollTop = 0;
    setView((before) => ({ ...before, top: 0 }));
    setMarked(-1);
  }, [rows.list]);
  const first = props.isWhole ? 0 : Math.max(0, Math.floor(top / ROW_PX) - MARGIN_ROWS);
  const last = props.isWhole ? rows.length : Math.min(rows.length, Math.ceil((top + view.height) / ROW_PX) + MARGIN_ROWS);
  useEffect(() => look?.(first, last), [look, first, last]);
  const move = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(view.height / ROW_PX) - 2);
    const steps: Record<string, number> = {
      ArrowDown: marked + 1, ArrowUp: marked - 1, PageDown: marked + page, PageUp: marked - page, Home: 0, End: rows.length - 1,
    };
    const to = steps[event.key];
    const row = at(rows, marked);
    if (event.key === "Enter" && row !== undefined && props.open && event.target === box.current) location.hash = props.open(row);
    if (to === undefined || !rows.length) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, to));
    setMarked(next);
    const element = box.current;
    if (!element || props.isWhole) return;
    const y = next * ROW_PX;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + 2 * ROW_PX > element.scrollTop + view.height) element.scrollTop = y + 2 * ROW_PX - view.height;
  };
  const width = shown.reduce((sum, one) => sum + one.width, 0);
  return (
    <div
      ref={box} class={`grid ${props.isWhole ? "whole" : ""}`} tabIndex={0} role="region" aria-label={props.label}
      aria-busy={props.isBusy ?? false} onKeyDown={move}
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
          {range(first, last).map((index) => {
            const row = at(rows, index);
            return row === undefined ? (
              <tr key={index} aria-rowindex={index + 2}><td colSpan={shown.length} /></tr>
            ) : (
              <tr
                key={props.rowKey(row)} class={marked === index ? "marked" : ""} aria-rowindex={index + 2}
                onClick={() => setMarked(index)} onDblClick={() => { if (props.open) location.hash = props.open(row); }}
              >
                {shown.map((one) => (
                  <td key={one.id} class={one.isNumber ? "number" : ""} title={textOf(one, row)}>
                    {one.show ? one.show(row) : textOf(one, row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {last < rows.length && <tr class="space" aria-hidden="true" style={{ height: `${(rows.length - last) * ROW_PX}px` }} />}
        </tbody>
      </table>
      {!rows.length && <p class="empty">{props.empty}</p>}
    </div>
  );
}

function Head<T>({ column, order }: { column: Column<T>; order: string }): JSX.Element {
  if (column.isUnordered) return <th scope="col" class={column.isNumber ? "number" : ""}><span class="head">{column.title}</span></th>;
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
