import type { JSX } from "preact";

import type { ProfileAnswer } from "../api/types";
import { METRICS } from "../lib/chart";
import { LineChart, type Series } from "./chart";

/** The charts of a step on a node: one for each metric, with a line for each GPU. */

type NodeProfile = ProfileAnswer["profiles"][number];
type Line = NodeProfile["lines"][number];

const NAMES: Record<string, string> = { read_bytes_per_second: "read", written_bytes_per_second: "written" };

export function ProfileCharts({ profile }: { profile: NodeProfile }): JSX.Element {
  const span = { startUs: profile.start_at_us, intervalS: profile.interval_s };
  const charts = chartsOf(profile.lines);
  return (
    <div class="charts">
      {charts.map(([name, series]) => {
        const metric = METRICS[name];
        const isTask = series.some((one) => one.label.startsWith("task "));
        return metric && <LineChart key={name} metric={isTask && NAMES[name] ? { ...metric, title: `${metric.title}, ${NAMES[name]}` } : metric} series={series} span={span} group={`${profile.step} ${profile.node}`} />;
      })}
    </div>
  );
}

/** By the first metric of each chart. Where single tasks are asked for, their lines stand in place of the step's; a chart has what is read or what is written. */
function chartsOf(lines: readonly Line[]): [string, Series[]][] {
  const found = new Map<string, [string, Series[]]>();
  const gpus = lines.filter((one) => one.kind === "gpu").map((one) => one.device);
  const hasTasks = lines.some((one) => one.kind === "task");
  for (const [name, metric] of Object.entries(METRICS)) {
    const title = hasTasks ? name : metric.title;
    for (const line of lines) {
      const values = line.metrics.find((one) => one.name === name);
      if (!values || (name === "gpu_throttled_percent" && values.max === 0) || (hasTasks && line.kind === "host")) continue;
      const label = line.kind === "gpu" ? `GPU ${gpus.indexOf(line.device)}` : line.kind === "task" ? `task ${line.device}` : NAMES[name] ?? "";
      const chart = found.get(title) ?? [name, []];
      chart[1].push({ ...values, label });
      found.set(title, chart);
    }
  }
  return [...found.values()];
}
