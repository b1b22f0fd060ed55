import type { JSX } from "preact";

import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { UtilizationAnswer } from "../api/types";
import { type Metric, rounded } from "../lib/chart";
import { Card, Empty } from "../parts/bits";
import { LineChart, type Series } from "../parts/chart";

/** GPUs (without any, CPUs) allocated, idle and out of use, by the hour, for hours that are over. */

type Hour = UtilizationAnswer["hours"][number];

const EVERY_MS = 60_000;
const HOUR_US = 3600e6;
const PARTS: readonly (readonly [string, (hour: Hour) => number])[] = [
  ["allocated", (hour) => hour.allocated_s],
  ["idle", (hour) => hour.idle_s + hour.planned_s],
  ["out of use", (hour) => hour.down_s + hour.planned_down_s],
];

/** The mean of each part in each hour; null: nothing was counted then. */
export function hourly(answer: UtilizationAnswer, tres: string): { most: number; series: Series[] } {
  const found = new Map(answer.hours.filter((one) => one.tres === tres && one.reported_s > 0).map((one) => [one.at_us, one]));
  const times = Array.from({ length: Math.round((answer.end_at_us - answer.start_at_us) / HOUR_US) }, (_, n) => answer.start_at_us + n * HOUR_US);
  const series = PARTS.map(([label, of]) => {
    const means = times.map((at) => {
      const hour = found.get(at);
      return hour ? (hour.count * of(hour)) / hour.reported_s : null;
    });
    const known = means.filter((value) => value !== null);
    return { label, means, maxima: means, mean: known.reduce((sum, one) => sum + one, 0) / Math.max(known.length, 1), max: Math.max(0, ...known) };
  });
  return { most: Math.max(0, ...[...found.values()].map((one) => one.count)), series };
}

/** Of the whole cluster over a period, or without one over the last day; nothing while it is not known. */
export function UseOverTime({ title, period = "", hasGpus }: { title: string; period?: string; hasGpus: boolean }): JSX.Element | null {
  const answer = useAnswer<UtilizationAnswer>(`${OWN}/utilization${period && `?${period}`}`, EVERY_MS);
  if (!answer.data) return null;
  const { most, series } = hourly(answer.data, hasGpus ? "gres/gpu" : "cpu");
  const metric: Metric = { title: hasGpus ? "GPUs" : "CPUs", text: rounded, base: 10, top: most };
  return (
    <Card title={title} class="wide" more={<span class="faint">means by the hour</span>}>
      {most > 0
        ? <LineChart metric={metric} series={series} span={{ startUs: answer.data.start_at_us, intervalS: 3600 }} hasPeaks={false} />
        : <Empty>Accounting has counted no whole hour yet.</Empty>}
    </Card>
  );
}
