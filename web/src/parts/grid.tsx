import { Component, type ComponentChildren, type JSX } from "preact";
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
const HEAD_ROWS = 1;
/** Rows out of sight on either side, so that scrolling shows no gap. */
const MARGIN_ROWS = 12;

/** Rows from `first` on, up to `last` without it. */
export interface Span {
  readonly first: number;
  readonly last: number;
}

export function spanInSight(top: number, height: number, length: number): Span {
  return { first: Math.min(length, Math.max(0, Math.floor(top / ROW_PX))), last: Math.min(length, Math.ceil((top + height) / ROW_PX)) };
}

export function withMargin({ first, last }: Span, length: number): Span {
  return { first: Math.max(0, first - MARGIN_ROWS), last: Math.min(length, last + MARGIN_ROWS) };
}

/** What is drawn in the next frame: what has been drawn if all in sight is part of it, else what is in sight and nothing more. */
export function drawnNow(drawn: Span | null, sight: Span, length: number): Span {
  if (!drawn || sight.first < drawn.first || sight.last > drawn.last) return sight;
  return { first: drawn.first, last: Math.min(length, drawn.last) };
}

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
    setMarked(-1);
    if (!view.top) return; // to write where it is would have the page laid out now
    if (box.current) box.current.scrollTop = 0;
    setView((before) => ({ ...before, top: 0 }));
  }, [rows.list]);
  const whole: Span = { first: 0, last: rows.length };
  const sight = spanInSight(top, view.height, rows.length);
  const around = props.isWhole ? whole : withMargin(sight, rows.length);
  const drawn = useDrawn(rows, sight, around);
  const { first, last } = props.isWhole ? whole : drawn;
  useLayoutEffect(() => look?.(around.first, around.last), [look, around.first, around.last]);
  /** Of the row under the pointer, if it is here. */
  const pointed = (event: Event): number => {
    const row = event.target instanceof Element ? event.target.closest("tr") : null;
    const index = Number(row?.getAttribute("aria-rowindex") ?? 0) - HEAD_ROWS - 1;
    return at(rows, index) === undefined ? -1 : index;
  };
  const openPointed = (event: Event): void => {
    const row = at(rows, pointed(event));
    if (row !== undefined && props.open) location.hash = props.open(row);
  };
  const mark = (event: Event): void => {
    const index = pointed(event);
    if (index >= 0) setMarked(index);
  };
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
      <table style={{ minWidth: `${width}rem` }} aria-rowcount={rows.length + HEAD_ROWS}>
        <colgroup>
          {shown.map((one) => <col key={one.id} style={{ width: `${one.width}rem` }} />)}
        </colgroup>
        <thead>
          <tr>{shown.map((one) => <Head key={one.id} column={one} order={props.order} />)}</tr>
        </thead>
        <tbody onClick={mark} onDblClick={openPointed}>
          {first > 0 && <tr class="space" aria-hidden="true" style={{ height: `${first * ROW_PX}px` }} />}
          {range(first, last).map((index) => {
            const row = at(rows, index);
            return row === undefined ? (
              <tr key={index} aria-rowindex={index + HEAD_ROWS + 1}><td colSpan={shown.length} /></tr>
            ) : (
              <Row key={props.rowKey(row)} row={row} place={index + HEAD_ROWS + 1} shown={shown} isMarked={marked === index} />
            );
          })}
          {last < rows.length && <tr class="space" aria-hidden="true" style={{ height: `${(rows.length - last) * ROW_PX}px` }} />}
        </tbody>
      </table>
      {!rows.length && <p class="empty">{props.empty}</p>}
    </div>
  );
}

/**
 * The rows that are drawn: of another list, or elsewhere in it, those in sight first, and in the frame after it those around them, so
 * that what is waited for does not wait for what nobody sees. Around rows that are on their way nothing is drawn.
 */
function useDrawn<T>(rows: Rows<T>, sight: Span, around: Span): Span {
  const [before, setBefore] = useState({ list: rows.list, ...sight });
  const drawn = drawnNow(before.list === rows.list ? before : null, sight, rows.length);
  const isHere = at(rows, sight.first) !== undefined && at(rows, sight.last - 1) !== undefined;
  useEffect(
    () => afterPaint(() => setBefore({ list: rows.list, ...(isHere ? around : sight) })), [rows.list, isHere, around.first, around.last],
  );
  return drawn;
}

/** Does something when the next frame has been shown: an effect may be run before it. Returns how to leave it. */
function afterPaint(act: () => void): () => void {
  let timer = 0;
  const frame = requestAnimationFrame(() => {
    timer = window.setTimeout(act);
  });
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}

interface RowProps<T> {
  readonly row: T;
  /** From 1, of all rows of the table. */
  readonly place: number;
  readonly shown: readonly Column<T>[];
  readonly isMarked: boolean;
}

/** A row; the same one is not drawn again. */
class Row<T> extends Component<RowProps<T>> {
  override shouldComponentUpdate(next: Readonly<RowProps<T>>): boolean {
    const { row, place, shown, isMarked } = this.props;
    return row !== next.row || place !== next.place || shown !== next.shown || isMarked !== next.isMarked;
  }

  override render({ row, place, shown, isMarked }: RowProps<T>): JSX.Element {
    return (
      <tr class={isMarked ? "marked" : ""} aria-rowindex={place}>
        {shown.map((one) => {
          const text = textOf(one, row);
          return <td key={one.id} class={one.isNumber ? "number" : ""} title={text}>{one.show ? one.show(row) : text}</td>;
        })}
      </tr>
    );
  }
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
