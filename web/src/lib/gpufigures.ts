import type { GpuReadingsAnswer } from "../api/types";

/** What GPUs do now, as their nodes said last. Pure. */

export type GpuReading = GpuReadingsAnswer["readings"][number];

/** An allocated GPU is busy from this utilisation on. Below it are those that wait for data, or for other nodes, nearly all the time. */
export const BUSY_PERCENT = 5;

/** Where the colours of a figure begin, but for the first. */
export interface Scale {
  readonly unit: string;
  readonly edges: readonly number[];
  readonly value: (reading: GpuReading) => number | null;
}

export const UTILIZATION: Scale = { unit: "%", edges: [BUSY_PERCENT, 25, 50, 75], value: (one) => one.utilization_percent };
/** Idle cards take some 30 to 90 W, those of servers at most 300 to 1,200 W. */
export const POWER: Scale = { unit: "W", edges: [100, 250, 400, 550], value: (one) => one.power_w };

/** The part of a scale that a value is in, from 0. */
export function partOf(scale: Scale, value: number): number {
  return scale.edges.filter((edge) => edge <= value).length;
}

/** `below 100 W`, `100 W to 250 W`, `550 W and more`. */
export function partText({ edges, unit }: Scale, part: number): string {
  const [from, to] = [edges[part - 1], edges[part]];
  if (from === undefined) return `below ${to ?? 0} ${unit}`;
  return to === undefined ? `${from} ${unit} and more` : `${from} ${unit} to ${to} ${unit}`;
}

export function byUuid(readings: readonly GpuReading[]): ReadonlyMap<string, GpuReading> {
  return new Map(readings.map((one) => [one.uuid, one]));
}

/** `90 %`; "" = it is not known. */
export function figure(value: number | null | undefined, unit: string): string {
  return value === null || value === undefined ? "" : `${value.toLocaleString("en")} ${unit}`;
}

/** Memory errors since the driver was loaded: `12 corrected, 1 uncorrected`; "" = it is not known, as of a card without ECC. */
export function eccText({ ecc_corrected: corrected, ecc_uncorrected: uncorrected }: GpuReading): string {
  if (corrected === 0 && uncorrected === 0) return "none";
  return [figure(corrected, "corrected"), figure(uncorrected, "uncorrected")].filter(Boolean).join(", ");
}
