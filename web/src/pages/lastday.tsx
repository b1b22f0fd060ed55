import type { JSX } from "preact";

import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { UsageHoursAnswer, UtilizationAnswer } from "../api/types";
import { type Metric, rounded } from "../lib/chart";
import { tresName } from "../lib/tres";
import { Card, Empty } from "../parts/bits";
import { LineChart, type Series } from "../parts/chart";

/** GPUs (without any, CPUs) allocated, idle and out of use, by the hour, for hours that are over. */

type Hour = UtilizationAnswer["hours"][number];

/** An hour that is over is counted once; the answer is dear for the controller, and many pages ask. */
const EVERY_MS = 600_000;
const HOUR_US = 3600e6;
const PARTS: readonly (readonly [string, (hour: Hour) => number])[] = [
  ["allocated", (hour) => hour.allocated_s],
  ["idle", (hour) => hour.idle_s + hour.planned_s],
  ["out of use", (hour) => hour.down_s + hour.planned_down_s],
];

/** A line of the chart: its title, and what it shows of each hour of a TRES. */
type Part = readonly [title: string, tres: string, of: (hour: Hour) => number];

/** The mean of each part in each hour; null: nothing was counted then. */
export function hourly(answer: UtilizationAnswer, parts: readonly Part[]): { most: number; series: Series[] } {
  const times = Array.from({ length: Math.round((answer.end_at_us - answer.start_at_us) / HOUR_US) }, (_, n) => answer.start_at_us + n * HOUR_US);
  const counted = answer.hours.filter((one) => one.reported_s > 0);
  const series = parts.map(([label, tres, of]) => {
    const found = new Map(counted.filter((one) => one.tres === tres).map((one) => [one.at_us, one]));
    const means = times.map((at) => {
      const hour = found.get(at);
      return hour ? (hour.count * of(hour)) / hour.reported_s : null;
    });
    const known = means.filter((value) => value !== null);
    return { label, means, maxima: means, mean: known.reduce((sum, one) => sum + one, 0) / Math.max(known.length, 1), max: Math.max(0, ...known) };
  });
  const wanted = new Set(parts.map(([, tres]) => tres));
  return { most: Math.max(0, ...counted.filter((one) => wanted.has(one.tres)).map((one) => one.count)), series };
}

/** GPUs of each type that were allocated, over a period; `types`: as TRES. */
export function UseByType({ period, types }: { period: string; types: readonly string[] }): JSX.Element | null {
  const answer = useAnswer<UtilizationAnswer>(`${OWN}/utilization?${period}&tres=${types.map(encodeURIComponent).join(",")}`, EVERY_MS);
  if (!answer.data) return null;
  return (
    <Hours title="Allocated GPUs by type" answer={answer.data} unit="GPUs by type" parts={types.map((tres): Part => [tresName(tres), tres, (hour) => hour.allocated_s])} />
  );
}

/** The groups that used most over a period: so many of the TRES at a time, by the hour. */
export function usedHourly(answer: UsageHoursAnswer): { most: number; series: Series[] } {
  const series = answer.groups.map(({ key, total_s: total, hours }): Series => {
    const means = hours.map((seconds) => seconds / 3600);
    return { label: key, means, maxima: means, mean: total / 3600 / Math.max(hours.length, 1), max: Math.max(0, ...means) };
  });
  return { most: Math.max(0, ...series.map((one) => one.max)), series };
}

/** Who used most over a period; `by`: an owner's word of REST. */
export function UseByOwner({ title, period, by, hasGpus }: { title: string; period: string; by: string; hasGpus: boolean }): JSX.Element | null {
  const tres = hasGpus ? "gres/gpu" : "cpu";
  const answer = useAnswer<UsageHoursAnswer>(`${OWN}/usage/hours?by=${by}&tres=${encodeURIComponent(tres)}&${period}`, EVERY_MS);
  if (!answer.data?.groups.length) return null;
  const { most, series } = usedHourly(answer.data);
  const metric: Metric = { title: hasGpus ? "GPUs in use" : "CPUs in use", text: rounded, base: 10, top: most };
  return (
    <Card title={title} class="wide" more={<span class="faint">means by the hour</span>}>
      <LineChart metric={metric} series={series} span={{ startUs: answer.data.start_at_us, intervalS: 3600 }} hasPeaks={false} />
    </Card>
  );
}

function Hours({ title, answer, unit, parts }: { title: string; answer: UtilizationAnswer; unit: string; parts: readonly Part[] }): JSX.Element {
  const { most, series } = hourly(answer, parts);
  const metric: Metric = { title: unit, text: rounded, base: 10, top: most };
  return (
    <Card title={title} class="wide" more={<span class="faint">means by the hour</span>}>
      {most > 0
        ? <LineChart metric={metric} series={series} span={{ startUs: answer.start_at_us, intervalS: 3600 }} hasPeaks={false} />
        : <Empty>Accounting has counted no whole hour yet.</Empty>}
    </Card>
  );
}

/** Of the whole cluster over a period, or without one over the last day; nothing while it is not known. */
export function UseOverTime({ title, period = "", hasGpus }: { title: string; period?: string; hasGpus: boolean }): JSX.Element | null {
  const answer = useAnswer<UtilizationAnswer>(`${OWN}/utilization${period && `?${period}`}`, EVERY_MS);
  if (!answer.data) return null;
  const tres = hasGpus ? "gres/gpu" : "cpu";
  return <Hours title={title} answer={answer.data} unit={hasGpus ? "GPUs" : "CPUs"} parts={PARTS.map(([label, of]): Part => [label, tres, of])} />;
}
