import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { alone, COLOURS, type Metric, type Span, timesOf, type Values } from "../lib/chart";
import { duration, tickText } from "../lib/units";

/** The drawing of a chart over time, on a canvas by uPlot. Loaded when a page has a chart. Colours are those of the style sheet. */

export interface Drawing {
  readonly metric: Metric;
  /** The end of the axis of values. */
  readonly top: number;
  readonly span: Span;
  readonly lines: readonly Values[];
  /** Drawn faintly above the first line. */
  readonly peaks: Values | null;
}

export interface Plot {
  readonly show: (drawing: Drawing) => void;
  readonly resize: (width: number) => void;
  /** Marks the time of a value, null: of none. */
  readonly point: (place: number | null) => void;
  readonly recolour: () => void;
  readonly remove: () => void;
}

const HEIGHT_PX = 132;
const LEFT_PX = 68;
const BOTTOM_PX = 22;
const RIGHT_PX = 20;
const TOP_PX = 8;
const TICK_PX = 72;
/** Steps of an axis that has no clock. */
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 5, 7, 14, 28, 60, 120, 365].map((days) => days * 86400)];

type Colour = (name: string) => string;

/** `first`: what is drawn, and the value that is pointed at already. `moved`: takes the value that is pointed at, in any chart of the same group. */
export function plotInto(box: HTMLElement, first: { drawing: Drawing; place: number | null }, group: string, moved: (place: number | null) => void): Plot {
  let { drawing } = first;
  let isReady = false; // uPlot reports the cursor of a new chart, too
  const style = getComputedStyle(box);
  const colour = (name: string): string => style.getPropertyValue(name);
  const plot = new uPlot({
    width: box.clientWidth, height: HEIGHT_PX, padding: [TOP_PX, RIGHT_PX, 0, 0], legend: { show: false },
    scales: {
      x: { time: drawing.span.startUs > 0, range: () => { const { from, to } = timesOf(drawing.span, countOf(drawing)); return [from, to]; } },
      y: { range: () => [0, drawing.top] },
    },
    axes: axesOf(() => drawing, colour, `11.5px ${style.fontFamily}`),
    series: [{}, ...linesOf(drawing, colour)],
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 6 }, sync: { key: group, setSeries: false } },
    hooks: {
      setCursor: [(self) => { if (isReady) moved(self.cursor.idx ?? null); }],
      ready: [(self) => { isReady = true; pointAt(self, first.place); }],
    },
  }, dataOf(drawing), box);
  return {
    show: (next) => {
      drawing = next;
      plot.setData(dataOf(next));
    },
    resize: (width) => plot.setSize({ width, height: HEIGHT_PX }),
    point: (place) => pointAt(plot, place),
    recolour: () => {
      plot.redraw(false, true);
      pointAt(plot, plot.cursor.idx ?? null);
    },
    remove: () => plot.destroy(),
  };
}

function axesOf(drawing: () => Drawing, colour: Colour, font: string): uPlot.Axis[] {
  const hasClock = drawing().span.startUs > 0;
  const both = { stroke: () => colour("--faint"), font, ticks: { show: false } };
  return [
    {
      ...both, size: BOTTOM_PX, gap: 6, space: TICK_PX, grid: { show: false }, ...(hasClock ? {} : { incrs: STEPS_S }),
      values: (_plot, ticks, _axis, _space, step) => ticks.map((at) => (hasClock ? tickText(at, step) : duration(at))),
    },
    {
      ...both, size: LEFT_PX, gap: 8, grid: { stroke: () => colour("--line"), width: 1 },
      splits: () => [0, drawing().top / 2, drawing().top], values: (_plot, ticks) => ticks.map(drawing().metric.text),
    },
  ];
}

function linesOf(drawing: Drawing, colour: Colour): uPlot.Series[] {
  const peaks: uPlot.Series = { stroke: () => colour("--s0"), width: 1, dash: [2, 3], alpha: 0.75, points: { show: false } };
  const lines = drawing.lines.map((_, index): uPlot.Series => ({
    stroke: () => colour(`--s${index % COLOURS}`), width: 1.75, points: { size: 4, filter: (plot, place) => alone(plot.data[place] as Values) },
  }));
  return drawing.peaks ? [peaks, ...lines] : lines;
}

function pointAt(plot: uPlot, place: number | null): void {
  const at = place === null ? undefined : plot.data[0][place];
  plot.setCursor(at === undefined ? { left: -10, top: -10 } : { left: plot.valToPos(at, "x"), top: 0 });
}

function countOf(drawing: Drawing): number {
  return drawing.lines[0]?.length ?? 0;
}

function dataOf(drawing: Drawing): uPlot.AlignedData {
  const lines = drawing.peaks ? [drawing.peaks, ...drawing.lines] : drawing.lines;
  return [timesOf(drawing.span, countOf(drawing)).at, ...lines.map((one) => [...one])];
}
