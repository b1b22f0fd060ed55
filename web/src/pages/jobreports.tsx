import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";

import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { EfficienciesAnswer, WaitsAnswer, WasteAnswer } from "../api/types";
import { link } from "../lib/route";
import { duration, fullTime } from "../lib/units";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";

/** Reports that are made from jobs: what they used of what they had, what they left unused, how long they waited. */

type Efficiency = EfficienciesAnswer["rows"][number];
type Waits = WaitsAnswer["rows"][number];
type Waste = WasteAnswer["rows"][number];

/** What each report has a row for, the first one unless another is chosen: words of REST, and titles. */
export const OWNERS: Readonly<Record<string, string>> = {
  "account": "Account", "user": "User", "account,user": "Account and user", "qos": "QOS", "partition": "Partition", "wckey": "Wckey",
};
export const WAIT_GROUPS: Readonly<Record<string, string>> = {
  "partition,gpu_type": "Partition and GPU type", "partition,gpus": "Partition and number of GPUs", "partition": "Partition",
  "gpu_type": "GPU type", "gpus": "Number of GPUs", "account": "Account", "user": "User", "qos": "QOS",
};
export const WASTE_GROUPS: Readonly<Record<string, string>> = { user: "User", account: "Account", name: "Job name" };

const KEY_TITLES: Readonly<Record<string, string>> = {
  account: "Account", user: "User", qos: "QOS", partition: "Partition", wckey: "Wckey", gpu_type: "GPU type", gpus: "GPUs",
};

export interface ReportProps {
  /** `start=...&end=...`; "": no period is chosen. */
  readonly period: string;
  readonly lengthS: number;
  readonly by: string;
  readonly tools: ComponentChildren;
}

/** `2-3` of the class that begins with 2; 0 and 1 are classes of their own. */
export function sizeClass(least: string): string {
  const number = Number(least);
  return number > 1 ? `${number}–${2 * number - 1}` : least;
}

function keyText(word: string, key: string): string {
  if (word === "gpus") return sizeClass(key);
  return word === "gpu_type" ? (key === "gpu" ? "of no type" : key || "none") : key;
}

/** The columns of what a report has a row for. */
export function keyColumns<T extends { readonly keys: readonly string[] }>(by: string): Column<T>[] {
  return by.split(",").map((word, index): Column<T> => ({
    id: word, title: KEY_TITLES[word] ?? word, width: 12, value: (row) => (word === "gpus" ? Number(row.keys[index]) : row.keys[index] ?? ""),
    text: (row) => keyText(word, row.keys[index] ?? ""),
  }));
}

function whole<T>(id: string, title: string, value: (row: T) => number): Column<T> {
  return { id, title, value, width: 6, isNumber: true };
}

export function hours<T>(id: string, title: string, seconds: (row: T) => number): Column<T> {
  return { id, title, value: seconds, text: (row) => (seconds(row) / 3600).toFixed(2), width: 9, isNumber: true };
}

/** Null is what was not measured, or of nothing. */
function share<T>(id: string, title: string, percent: (row: T) => number | null): Column<T> {
  const text = (row: T): string => {
    const found = percent(row);
    return found === null ? "" : `${found.toFixed(1)} %`;
  };
  return { id, title, value: (row) => percent(row) ?? -1, text, width: 9, isNumber: true };
}

function waited<T>(id: string, title: string, seconds: (row: T) => number): Column<T> {
  return { id, title, value: seconds, text: (row) => duration(seconds(row)), width: 9, isNumber: true };
}

const EFFICIENCY: readonly Column<Efficiency>[] = [
  whole("jobs", "Jobs", (row) => row.jobs),
  share("cpu", "CPUs used", (row) => row.cpu_percent),
  hours("cpuhours", "CPU hours", (row) => row.cpu_allocated_s),
  share("memory", "Memory used", (row) => row.memory_percent),
  share("gpu", "GPUs busy", (row) => row.gpu_percent),
  hours("gpuhours", "GPU hours", (row) => row.gpu_allocated_s),
];
const WAITS: readonly Column<Waits>[] = [
  whole("jobs", "Jobs", (row) => row.jobs),
  waited("mean", "Mean", (row) => row.mean_s),
  waited("median", "Median", (row) => row.median_s),
  waited("p95", "95 % within", (row) => row.p95_s),
  waited("longest", "Longest", (row) => row.longest_s),
];
const WASTE: readonly Column<Waste>[] = [
  whole("jobs", "Jobs", (row) => row.jobs),
  hours("unused", "Unused GPU hours", (row) => row.unused_gpu_s),
  hours("allocated", "GPU hours", (row) => row.allocated_gpu_s),
  share("busy", "Busy", (row) => (100 * (row.allocated_gpu_s - row.unused_gpu_s)) / Math.max(row.allocated_gpu_s, 1)),
  {
    id: "worst", title: "Worst job", value: (row) => row.worst_job, width: 7, isNumber: true,
    show: (row) => <a href={link(["jobs", row.worst_job])}>{row.worst_job}</a>,
  },
  hours("worstunused", "Its unused hours", (row) => row.worst_unused_gpu_s),
  { id: "command", title: "Its command", value: (row) => row.worst_command ?? "", width: 24 },
];

interface Found<T> {
  readonly start_at_us: number;
  readonly end_at_us: number;
  readonly rows: readonly T[];
}

function JobReport<T>(props: ReportProps & {
  path: string;
  columns: readonly Column<T>[];
  order: string;
  rowKey: (row: T) => string;
  note: string;
}): JSX.Element {
  const { period, path, columns, order, rowKey, note, tools } = props;
  const answer = useAnswer<Found<T>>(period && `${OWN}/${path}&${period}`);
  return (
    <TablePage
      title="Reports" rows={period ? answer.data?.rows : []} error={answer.error} columns={columns} order={order} rowKey={rowKey}
      empty={period ? "No such job in this period." : "Choose two dates, the earlier one first."} tools={tools}
    >
      {answer.data && <p class="faint">{`${fullTime(answer.data.start_at_us)} to ${fullTime(answer.data.end_at_us)}: ${note}`}</p>}
    </TablePage>
  );
}

export function EfficiencyReport(props: ReportProps): JSX.Element {
  const columns = useMemo(() => [...keyColumns<Efficiency>(props.by), ...EFFICIENCY], [props.by]);
  return (
    <JobReport
      {...props} path={`efficiency?group_by=${props.by}`} columns={columns} order="-cpuhours" rowKey={(row) => JSON.stringify(row.keys)}
      note="jobs that ended. GPUs count where their use was measured"
    />
  );
}

export function WaitsReport(props: ReportProps): JSX.Element {
  const columns = useMemo(() => [...keyColumns<Waits>(props.by), ...WAITS], [props.by]);
  return (
    <JobReport
      {...props} path={`waits?group_by=${props.by}`} columns={columns} order="-p95" rowKey={(row) => JSON.stringify(row.keys)}
      note="jobs that started, and how long they had been eligible"
    />
  );
}

export function WasteReport(props: ReportProps): JSX.Element {
  const columns = useMemo<readonly Column<Waste>[]>(
    () => [{ id: "name", title: WASTE_GROUPS[props.by] ?? props.by, value: (row) => row.name, width: 12 }, ...WASTE], [props.by],
  );
  return (
    <JobReport
      {...props} path={`waste?by=${props.by}`} columns={columns} order="-unused" rowKey={(row) => row.name}
      note="jobs that ended, and whose GPUs were measured; the 100 names with the most unused hours"
    />
  );
}
