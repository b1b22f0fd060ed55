import { bytes } from "./units";

/** What charts over time need: how metrics are named and written, the ends of axes, points that stand alone. Pure. */

export interface Metric {
  readonly title: string;
  readonly text: (value: number) => string;
  /** Steps of its axis are of this base. */
  readonly base: 2 | 10;
  /** A fixed top; 0: that of the values. */
  readonly top: number;
}

export const rounded = (value: number): string => (value >= 100 ? Math.round(value).toLocaleString("en") : `${+value.toPrecision(2)}`);
export const shares = (title: string): Metric => ({ title, text: (value) => `${Math.round(value)} %`, base: 10, top: 100 });

/** The metrics of a profile, by name, in the order in which they are shown. Those with the same title share a chart. */
export const METRICS: Readonly<Record<string, Metric>> = {
  cpu_cores: { title: "CPU", text: (value) => `${rounded(value)} cores`, base: 10, top: 0 },
  memory_bytes: { title: "Memory", text: bytes, base: 2, top: 0 },
  read_bytes_per_second: { title: "Disk", text: (value) => `${bytes(value)}/s`, base: 2, top: 0 },
  written_bytes_per_second: { title: "Disk", text: (value) => `${bytes(value)}/s`, base: 2, top: 0 },
  gpu_utilization_percent: shares("GPU utilisation"),
  gpu_memory_bytes: { title: "GPU memory", text: bytes, base: 2, top: 0 },
  gpu_power_watts: { title: "GPU power", text: (value) => `${rounded(value)} W`, base: 10, top: 0 },
  gpu_temperature_celsius: { title: "GPU temperature", text: (value) => `${rounded(value)} °C`, base: 10, top: 0 },
  gpu_throttled_percent: shares("GPU throttled"),
};

/** Colours of the style sheet; more lines begin again, and are told apart by their name in the legend. */
export const COLOURS = 8;

/** The end of an axis that has a value: a round number, which has a round half; of bytes by 1024. */
export function topOf(most: number, base: 2 | 10): number {
  if (most <= 0) return base === 2 ? 1024 : 1;
  const power = base === 2 ? 2 ** Math.floor(Math.log2(most)) : 10 ** Math.floor(Math.log10(most));
  const steps = base === 2 ? [1, 1.5, 2] : [1, 2, 4, 6, 8, 10];
  return (steps.find((one) => one * power >= most) ?? base) * power;
}

/** Means of equal times; null: not known. */
export type Values = readonly (number | null)[];

export interface Span {
  /** 0: not known, only the time since it is. */
  readonly startUs: number;
  /** Of one value. */
  readonly intervalS: number;
}

/** Where values are on the axis of time, each in the middle of its own: seconds of Unix time, or since a start that is not known. */
export function timesOf(span: Span, count: number): { from: number; to: number; at: number[] } {
  const from = span.startUs / 1e6;
  return { from, to: from + count * span.intervalS, at: Array.from({ length: count }, (_, place) => from + (place + 0.5) * span.intervalS) };
}

/** Places of values without a known neighbour, which no line shows. */
export function alone(values: Values): number[] {
  const isKnown = (place: number): boolean => typeof values[place] === "number";
  return values.flatMap((_, place) => (isKnown(place) && !isKnown(place - 1) && !isKnown(place + 1) ? [place] : []));
}
