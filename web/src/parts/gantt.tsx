import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { type BarKind, isGround, marks, type PlanBar, type PlanItem, type PlanRow } from "../lib/plan";
import { useStore } from "../lib/store";
import { duration, moment } from "../lib/units";
import { themeChanges } from "./gpugrid";

/** Rows of bars on a canvas as large as what is in sight; scrolling draws others. Clicking a bar chooses it. */

const LANE_PX = 18;
const GAP_PX = 6;
const HEAD_PX = 26;
const HEIGHT_PX = 460;
const NAME_PX = 110;
const MARK_PX = 90;

interface View {
  readonly from_s: number;
  readonly to_s: number;
  readonly now_s: number;
  readonly width: number;
}

interface PlacedRow {
  readonly row: PlanRow;
  readonly top: number;
}

function placed(rows: readonly PlanRow[]): [PlacedRow[], number] {
  let top = HEAD_PX;
  const found = rows.map((row) => {
    const here = { row, top };
    top += row.lanes * LANE_PX + GAP_PX;
    return here;
  });
  return [found, top];
}

export function Gantt(props: {
  rows: readonly PlanRow[];
  from_s: number;
  to_s: number;
  now_s: number;
  chosen: string;
  label: string;
  choose: (item: PlanItem) => void;
  /** A node's name is clicked. */
  chooseNode?: (node: string) => void;
}): JSX.Element {
  const { rows, chosen, choose } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [top, setTop] = useState(0);
  const [hover, setHover] = useState<PlanItem | null>(null);
  const theme = useStore(themeChanges);
  const [lines, height] = placed(rows);
  const shown = Math.min(HEIGHT_PX, height);
  const view: View = { from_s: props.from_s, to_s: props.to_s, now_s: props.now_s, width };
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => setWidth(element.clientWidth));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width) draw(canvas.current, lines, view, shown, top, chosen);
  }, [rows, width, top, theme, chosen, view.from_s, view.to_s, view.now_s]);
  const at = (event: MouseEvent): PlanItem | null => found(lines, view, event.offsetX, event.offsetY, top);
  return (
    <div class="gantt">
      <div
        class="gantt-box" ref={box} tabIndex={0} role="region" aria-label={props.label} style={{ height: `${shown}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div style={{ height: `${height}px` }}>
          <canvas
            ref={canvas} aria-hidden="true" onMouseMove={(event) => setHover(at(event))} onMouseLeave={() => setHover(null)}
            onClick={(event) => {
              const item = at(event);
              if (item) choose(item);
              const node = props.chooseNode && nodeAt(lines, event.offsetX, event.offsetY, top);
              if (node) props.chooseNode?.(node);
            }}
          />
        </div>
      </div>
      <p class="faint hint">{hover ? said(hover) : (props.chooseNode ? "Click the name of a node to let it go, or come back." : "Point at a bar to see what it is; a click says why it is there.")}</p>
    </div>
  );
}

function said(item: PlanItem): string {
  const end = Number.isFinite(item.end_s) ? `${moment(item.end_s * 1e6)} (${duration(item.end_s - item.start_s)})` : "without an end";
  return `${item.label}: ${moment(item.start_s * 1e6)} to ${end} on ${item.nodes}`;
}

/** The pixel of a time. */
function xOf(at_s: number, view: View): number {
  return NAME_PX + ((view.width - NAME_PX) * (at_s - view.from_s)) / (view.to_s - view.from_s);
}

/** Left edge and width of a bar; one that is short has 3 pixels. */
function span(bar: PlanBar, view: View): [number, number] {
  const left = Math.max(xOf(bar.item.start_s, view), NAME_PX);
  const right = Math.min(Number.isFinite(bar.item.end_s) ? xOf(bar.item.end_s, view) : view.width, view.width);
  return [left, Math.max(right - left, 3)];
}

function draw(canvas: HTMLCanvasElement, lines: readonly PlacedRow[], view: View, height: number, scrolled: number, chosen: string): void {
  const scale = devicePixelRatio || 1;
  canvas.width = view.width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${view.width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  context.scale(scale, scale);
  context.font = `12px ${style.fontFamily}`;
  context.textBaseline = "middle";
  const times = marks(view.from_s, view.to_s, Math.max(2, (view.width - NAME_PX) / MARK_PX));
  context.lineWidth = 1;
  context.strokeStyle = colour("--line");
  for (const at of times) upright(context, Math.round(xOf(at, view)) + 0.5, height);
  for (const line of lines) {
    const y = line.top - scrolled;
    if (y > height || y + line.row.lanes * LANE_PX < HEAD_PX) continue;
    for (const bar of line.row.bars) drawBar(context, bar, y, line.row.lanes, view, colour, bar.item.id === chosen);
    context.fillStyle = colour("--text");
    context.fillText(line.row.node, 4, y + LANE_PX / 2, NAME_PX - 10);
  }
  context.lineWidth = 1;
  context.strokeStyle = colour("--bar-bad");
  upright(context, xOf(view.now_s, view), height);
  context.fillStyle = colour("--surface"); // above what is scrolled
  context.fillRect(0, 0, view.width, HEAD_PX - 6);
  context.fillStyle = colour("--faint");
  for (const at of times) context.fillText(moment(at * 1e6), xOf(at, view) + 3, HEAD_PX / 2 - 2);
}

/** The line of a time. */
function upright(context: CanvasRenderingContext2D, x: number, height: number): void {
  context.beginPath();
  context.moveTo(x, HEAD_PX - 6);
  context.lineTo(x, height);
  context.stroke();
}

interface BarStyle {
  /** Names of colours; "" is none. */
  readonly fill: string;
  readonly line: string;
  readonly text: string;
  readonly dash: number[];
}

const STYLES: Readonly<Record<BarKind, BarStyle>> = {
  run: { fill: "--bar-run", line: "--bar-run", text: "--on-accent", dash: [] },
  plan: { fill: "--run-bg", line: "--run", text: "--run", dash: [4, 3] },
  reserved: { fill: "--wait-bg", line: "--bar-wait", text: "--wait", dash: [4, 3] },
  gone: { fill: "--bad-bg", line: "--bar-bad", text: "--bad", dash: [2, 2] },
  was: { fill: "", line: "--faint", text: "--faint", dash: [2, 3] },
  moved: { fill: "--wait-bg", line: "--wait", text: "--wait", dash: [] },
  comes: { fill: "--good-bg", line: "--good", text: "--good", dash: [] },
};

function drawBar(
  context: CanvasRenderingContext2D, bar: PlanBar, top: number, lanes: number, view: View, colour: (name: string) => string, isChosen: boolean,
): void {
  const [x, width] = span(bar, view);
  const style = STYLES[bar.item.kind];
  const isBehind = isGround(bar.item);
  const [y, height] = isBehind ? [top - 2, lanes * LANE_PX + 2] : [top + bar.lane * LANE_PX, LANE_PX - 3];
  context.fillStyle = style.fill ? colour(style.fill) : "transparent";
  context.strokeStyle = colour(isChosen ? "--text" : style.line);
  context.lineWidth = isChosen ? 2 : 1;
  context.setLineDash(style.dash); // not by colour alone
  context.beginPath();
  context.roundRect(x, y, width, height, 3);
  context.fill();
  context.stroke();
  context.setLineDash([]);
  if (width < 34 || isBehind) return;
  context.fillStyle = colour(style.text);
  context.save();
  context.clip();
  context.fillText(bar.item.label, x + 5, y + height / 2);
  context.restore();
}

function rowAt(lines: readonly PlacedRow[], y: number, scrolled: number): PlacedRow | undefined {
  const down = y + scrolled;
  return y < HEAD_PX ? undefined : lines.find((one) => down >= one.top && down < one.top + one.row.lanes * LANE_PX);
}

function nodeAt(lines: readonly PlacedRow[], x: number, y: number, scrolled: number): string | undefined {
  return x < NAME_PX ? rowAt(lines, y, scrolled)?.row.node : undefined;
}

function found(lines: readonly PlacedRow[], view: View, x: number, y: number, scrolled: number): PlanItem | null {
  const line = rowAt(lines, y, scrolled);
  if (!line || x < NAME_PX) return null;
  const lane = Math.floor((y + scrolled - line.top) / LANE_PX);
  const hits = line.row.bars.filter((bar) => {
    const [left, width] = span(bar, view);
    return x >= left && x <= left + width && (isGround(bar.item) || bar.lane === lane);
  });
  return hits.at(-1)?.item ?? null; // a job before the reservation that it is in
}
