import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { indexAt, type Metric, pathOf, topOf, type Values } from "../lib/chart";
import { duration, moment } from "../lib/units";

/** Lines over a step's time, as SVG whose colours are of the style sheet. Pointing at a moment, or an arrow key, reads it. */

export interface Series {
  readonly label: string;
  readonly mean: number;
  readonly max: number;
  readonly means: Values;
  readonly maxima: Values;
}

export interface Span {
  /** 0: not known, only the time since it is. */
  readonly startUs: number;
  /** Of one value. */
  readonly intervalS: number;
}

const HEIGHT_PX = 132;
const LEFT_PX = 68;
const BOTTOM_PX = 20;
const TOP_PX = 8;
/** Colours of the style sheet; more lines begin again, and are told apart by their name in the legend. */
const COLOURS = 8;

export function LineChart(props: { metric: Metric; series: readonly Series[]; span: Span; hasPeaks?: boolean }): JSX.Element {
  const { metric, series, span, hasPeaks = true } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    if (!box.current) return;
    const watcher = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const count = series[0]?.means.length ?? 0;
  const place = at === null ? null : Math.min(at, count - 1);
  const top = metric.top || topOf(Math.max(...series.map((one) => one.max)), metric.base);
  const plot = { width: Math.max(width - LEFT_PX - 1, 1), height: HEIGHT_PX - TOP_PX - BOTTOM_PX };
  const isCrowded = series.length > 2;
  const label = `${metric.title} over ${duration(count * span.intervalS)}: ` +
    series.map((one) => `${one.label && `${one.label} `}mean ${metric.text(one.mean)}, highest ${metric.text(one.max)}`).join("; ");
  const point = (event: PointerEvent): void => setAt(indexAt(event.offsetX - LEFT_PX, plot.width, count));
  const turn = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    setAt((before) => Math.max(0, Math.min(count - 1, (before ?? (by > 0 ? -1 : count)) + by)));
  };
  return (
    <figure class="chart">
      <figcaption>
        <b>{metric.title}</b>
        <span class="faint">{place !== null ? momentText(span, place) : isCrowded ? "means" : ""}</span>
      </figcaption>
      <div
        ref={box} class="plot" role="img" aria-label={label} tabIndex={0} onPointerMove={point} onPointerLeave={() => setAt(null)}
        onKeyDown={turn} onBlur={() => setAt(null)}
      >
        {width > 0 && (
          <svg width={width} height={HEIGHT_PX} aria-hidden="true">
            <g transform={`translate(${LEFT_PX} ${TOP_PX})`}>
              <Axes metric={metric} top={top} plot={plot} seconds={count * span.intervalS} />
              {hasPeaks && series.length === 1 && <path class="peak" d={pathOf(series[0]?.maxima ?? [], plot.width, plot.height, top)} />}
              {series.map((one, index) => (
                <path key={one.label} class={`line s${index % COLOURS}`} d={pathOf(one.means, plot.width, plot.height, top)} />
              ))}
              {place !== null && <path class="cursor" d={`M${(((place + 0.5) / count) * plot.width).toFixed(1)} 0v${plot.height}`} />}
            </g>
          </svg>
        )}
      </div>
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

function valueText(metric: Metric, value: number | null | undefined): string {
  return value === null || value === undefined ? "not known" : metric.text(value);
}

function momentText(span: Span, place: number): string {
  const seconds = (place + 0.5) * span.intervalS;
  return span.startUs ? `${duration(seconds)} after its start, ${moment(span.startUs + seconds * 1e6)}` : `after ${duration(seconds)}`;
}

function Axes(props: { metric: Metric; top: number; plot: { width: number; height: number }; seconds: number }): JSX.Element {
  const { metric, top, plot, seconds } = props;
  return (
    <>
      {[0, 0.5, 1].map((part) => {
        const y = plot.height * (1 - part);
        return (
          <g key={part}>
            <path class="rule" d={`M0 ${y}h${plot.width}`} />
            <text x={-8} y={y + 4} text-anchor="end">{metric.text(top * part)}</text>
          </g>
        );
      })}
      <text x={0} y={plot.height + 16}>0</text>
      <text x={plot.width / 2} y={plot.height + 16} text-anchor="middle">{duration(seconds / 2)}</text>
      <text x={plot.width} y={plot.height + 16} text-anchor="end">{duration(seconds)}</text>
    </>
  );
}
