import { bytes } from "./units";

/** What charts over time need: how metrics are named and written, the top of an axis, the path of a line. Pure. */

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

/** The end of an axis that has a value: a round number, which has a round half; of bytes by 1024. */
export function topOf(most: number, base: 2 | 10): number {
  if (most <= 0) return base === 2 ? 1024 : 1;
  const power = base === 2 ? 2 ** Math.floor(Math.log2(most)) : 10 ** Math.floor(Math.log10(most));
  const steps = base === 2 ? [1, 1.5, 2] : [1, 2, 4, 6, 8, 10];
  return (steps.find((one) => one * power >= most) ?? base) * power;
}

export type Values = readonly (number | null)[];

/** Where the point of each value is, left to right: in the middle of its time. */
function across(index: number, count: number, width: number): number {
  return ((index + 0.5) / count) * width;
}

/** The path of a line; a value that is not known makes a gap. One value alone is as wide as its time. */
export function pathOf(values: Values, width: number, height: number, top: number): string {
  const parts: string[] = [];
  const y = (value: number): string => (height - (Math.min(value, top) / top) * height).toFixed(1);
  values.forEach((value, index) => {
    if (value === null) return;
    const isFirst = index === 0 || values[index - 1] === null;
    const isLast = index === values.length - 1 || values[index + 1] === null;
    if (isFirst) parts.push(`M${((index / values.length) * width).toFixed(1)} ${y(value)}`);
    parts.push(`L${across(index, values.length, width).toFixed(1)} ${y(value)}`);
    if (isLast) parts.push(`L${(((index + 1) / values.length) * width).toFixed(1)} ${y(value)}`);
  });
  return parts.join("");
}

/** The value whose time a place is in. */
export function indexAt(x: number, width: number, count: number): number {
  return Math.max(0, Math.min(count - 1, Math.floor((x / width) * count)));
}
