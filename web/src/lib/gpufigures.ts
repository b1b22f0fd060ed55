import type { ProfileAnswer } from "../api/types";

/** What GPUs did lately, from the profiles of the steps that have them. Pure. */

export type NodeProfile = ProfileAnswer["profiles"][number];

export interface GpuFigures {
  readonly utilization: number | null;
  readonly powerW: number | null;
  readonly temperatureC: number | null;
}

/** An older point says nothing of now: the step is over. */
const AGE_US_MAX = 300e6;
/** Steps whose last points are no farther apart run side by side. */
const APART_US = 60e6;

type Line = NodeProfile["lines"][number];

/** The last point of each line. Utilisation is each step's own part, power and temperature are the card's. null: there is none. */
export function figuresOf(profiles: readonly NodeProfile[], uuid: string, nowUs: number): GpuFigures | null {
  const found = profiles
    .flatMap((one) => one.lines.filter((line) => line.kind === "gpu" && line.device === uuid).map((line) => ({ line, endUs: endOf(one, line) })))
    .filter((one) => one.endUs >= nowUs - AGE_US_MAX)
    .sort((a, b) => b.endUs - a.endUs);
  const [latest] = found;
  if (!latest) return null;
  const parts = found.filter((one) => one.endUs >= latest.endUs - APART_US).map(({ line }) => last(line, "gpu_utilization_percent"));
  const known = parts.filter((one) => one !== null);
  return {
    utilization: known.length ? Math.min(100, known.reduce((sum, one) => sum + one, 0)) : null,
    powerW: last(latest.line, "gpu_power_watts"),
    temperatureC: last(latest.line, "gpu_temperature_celsius"),
  };
}

function endOf(profile: NodeProfile, line: Line): number {
  const points = Math.max(0, ...line.metrics.map((one) => one.means.length));
  return profile.start_at_us + points * profile.interval_s * 1e6;
}

function last(line: Line, name: string): number | null {
  return line.metrics.find((one) => one.name === name)?.means.at(-1) ?? null;
}

/** `90 % · 312 W · 54 °C`; what is not known is left out. */
export function figuresText({ utilization, powerW, temperatureC }: GpuFigures): string {
  const texts: [number | null, string][] = [[utilization, "%"], [powerW, "W"], [temperatureC, "°C"]];
  return texts.filter(([value]) => value !== null).map(([value, unit]) => `${Math.round(value ?? 0)} ${unit}`).join(" · ");
}
