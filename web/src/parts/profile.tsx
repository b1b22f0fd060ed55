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
        return metric && <LineChart key={name} metric={metric} series={series} span={span} group={`${profile.step} ${profile.node}`} />;
      })}
    </div>
  );
}

/** By the first metric of each chart. */
function chartsOf(lines: readonly Line[]): [string, Series[]][] {
  const found = new Map<string, [string, Series[]]>();
  const gpus = lines.filter((one) => one.kind === "gpu").map((one) => one.device);
  for (const [name, metric] of Object.entries(METRICS)) {
    for (const line of lines) {
      const values = line.metrics.find((one) => one.name === name);
      if (!values || (name === "gpu_throttled_percent" && values.max === 0)) continue;
      const label = line.kind === "gpu" ? `GPU ${gpus.indexOf(line.device)}` : NAMES[name] ?? "";
      const chart = found.get(metric.title) ?? [name, []];
      chart[1].push({ ...values, label });
      found.set(metric.title, chart);
    }
  }
  return [...found.values()];
}
