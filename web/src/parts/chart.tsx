import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";

import { COLOURS, type Metric, type Span, topOf, type Values } from "../lib/chart";
import { useStore } from "../lib/store";
import { duration, moment } from "../lib/units";
import { themeChanges } from "./gpugrid";
import type * as plotting from "./plot";

/** Lines over a time. Pointing at a moment, or an arrow key, reads it; without, the legend has what a picture cannot say. */

export interface Series {
  readonly label: string;
  readonly mean: number;
  readonly max: number;
  readonly means: Values;
  readonly maxima: Values;
}

/** A part that could not be loaded is asked for again. */
const RELOAD_MS = 3000;

export function LineChart(props: {
  metric: Metric;
  series: readonly Series[];
  span: Span;
  hasPeaks?: boolean;
  /** Charts of one group are read at the same moment. */
  group?: string;
}): JSX.Element {
  const { metric, series, span, hasPeaks = true } = props;
  const [at, setAt] = useState<number | null>(null);
  const count = series[0]?.means.length ?? 0;
  const place = at === null ? null : Math.min(at, count - 1);
  const peaks = hasPeaks && series.length === 1 ? series[0]?.maxima ?? null : null;
  const drawing = useMemo(() => ({
    metric, span, peaks, lines: series.map((one) => one.means), top: metric.top || topOf(Math.max(...series.map((one) => one.max)), metric.base),
  }), [metric, series, span]);
  const { box, point } = useDrawing(drawing, props.group, place, setAt);
  const isCrowded = series.length > 2;
  const label = `${metric.title} over ${duration(count * span.intervalS)}: ` +
    series.map((one) => `${one.label && `${one.label} `}mean ${metric.text(one.mean)}, highest ${metric.text(one.max)}`).join("; ");
  const turn = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    point(Math.max(0, Math.min(count - 1, (place ?? (by > 0 ? -1 : count)) + by)));
  };
  return (
    <figure class="chart">
      <figcaption>
        <b>{metric.title}</b>
        <span class="faint">{place !== null ? momentText(span, place) : isCrowded ? "means" : ""}</span>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={label} tabIndex={0} onKeyDown={turn} onBlur={() => point(null)} />
      <ul class="legend">
        {series.map((one, index) => (
          <li key={one.label}>
            <i class={`stroke s${index % COLOURS}`} aria-hidden="true" /> {one.label}{" "}
            {place !== null ? <b>{valueText(metric, one.means[place])}</b>
              : isCrowded ? <b>{metric.text(one.mean)}</b>
              : <>mean <b>{metric.text(one.mean)}</b>, highest <b>{metric.text(one.max)}</b></>}
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** Draws into a box, and again when what is drawn, its width or the colours have changed. */
function useDrawing(
  drawing: plotting.Drawing, group: string | undefined, place: number | null, moved: (place: number | null) => void,
): { box: { current: HTMLDivElement | null }; point: (place: number | null) => void } {
  const part = usePart();
  const own = useId();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<plotting.Plot | null>(null);
  const theme = useStore(themeChanges);
  const latest = useRef({ drawing, place });
  latest.current = { drawing, place };
  const shape = [drawing.metric.title, drawing.lines.length, drawing.peaks !== null, drawing.span.startUs > 0, group].join();
  useEffect(() => {
    const element = box.current;
    if (!part || !element) return;
    const made = part.plotInto(element, latest.current, group ?? own, moved);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.resize(element.clientWidth));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.remove();
      plot.current = null;
    };
  }, [part, shape]);
  useEffect(() => plot.current?.show(drawing), [drawing]);
  useEffect(() => plot.current?.recolour(), [theme]);
  return {
    box,
    point: (to) => {
      moved(to);
      plot.current?.point(to);
    },
  };
}

/** The drawing is no part of the first page that is loaded. */
function usePart(): typeof plotting | null {
  const [part, setPart] = useState<typeof plotting | null>(null);
  useEffect(() => {
    let timer = 0;
    const load = (): void => {
      const failed = (): void => { timer = window.setTimeout(load, RELOAD_MS); }; // the daemon was away
      void import("./plot").then(setPart, failed);
    };
    load();
    return () => clearTimeout(timer);
  }, []);
  return part;
}

function valueText(metric: Metric, value: number | null | undefined): string {
  return value === null || value === undefined ? "not known" : metric.text(value);
}

function momentText(span: Span, place: number): string {
  const seconds = (place + 0.5) * span.intervalS;
  return span.startUs ? `${duration(seconds)} after its start, ${moment(span.startUs + seconds * 1e6)}` : `after ${duration(seconds)}`;
}
