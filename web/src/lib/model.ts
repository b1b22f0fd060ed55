import type { GpuInfo, JobsAnswer, Node } from "../api/types";
import { BUSY_PERCENT, byUuid, type GpuReading } from "./gpufigures";
import { gpuUse, type GpuUse, nodeTone, type Tone } from "./states";

/** What the pages make of answers. */

export type JobRow = JobsAnswer["jobs"][number];
export type Gpu = GpuInfo & { node: string };

export interface NodeGpu {
  readonly gpu: Gpu;
  readonly use: GpuUse;
  /** null: nothing is known of what it does. */
  readonly reading: GpuReading | null;
}

export interface NodeRow {
  readonly node: Node;
  readonly tone: Tone;
  readonly gpus: readonly NodeGpu[];
}

export function nodeRows(nodes: readonly Node[], gpus: readonly Gpu[], readings: readonly GpuReading[] = []): NodeRow[] {
  const known = byUuid(readings);
  const byNode = new Map<string, Gpu[]>();
  for (const one of gpus) {
    const list = byNode.get(one.node);
    if (list) list.push(one);
    else byNode.set(one.node, [one]);
  }
  return nodes.map((node) => {
    const tone = nodeTone(node.state);
    const found = (byNode.get(node.name) ?? []).map((gpu) => (
      { gpu, use: gpuUse(gpu.state, gpu.job_ids, tone, gpu.idle_job_id), reading: known.get(gpu.uuid) ?? null }
    ));
    return { node, tone, gpus: found };
  });
}

/** How many of the GPUs that jobs have do something. `unknown`: of so many it is not known. */
export function busyOf(gpus: readonly NodeGpu[]): { readonly allocated: number; readonly busy: number; readonly unknown: number } {
  const allocated = gpus.filter(({ use }) => use === "busy" || use === "unused");
  const percents = allocated.map(({ reading }) => reading?.utilization_percent ?? null);
  const known = percents.filter((one) => one !== null);
  return { allocated: allocated.length, busy: known.filter((one) => one >= BUSY_PERCENT).length, unknown: allocated.length - known.length };
}

/** What a job has on a node and leaves idle. */
export interface IdleAllocation {
  readonly jobId: number;
  readonly node: string;
  readonly gpus: number;
  readonly sinceUs: number;
}

/** Those that have been idle for the longest time come first. */
export function idleAllocations(rows: readonly NodeRow[]): IdleAllocation[] {
  const found = new Map<string, IdleAllocation>();
  for (const { gpu } of rows.flatMap((one) => one.gpus).filter((one) => one.gpu.idle_job_id > 0)) {
    const key = `${gpu.node} ${gpu.idle_job_id}`;
    const before = found.get(key);
    const sinceUs = Math.max(gpu.idle_since_us, before?.sinceUs ?? 0);
    found.set(key, { jobId: gpu.idle_job_id, node: gpu.node, gpus: (before?.gpus ?? 0) + 1, sinceUs });
  }
  return [...found.values()].sort((a, b) => a.sinceUs - b.sinceUs || a.jobId - b.jobId || a.node.localeCompare(b.node));
}

export function sum<T>(rows: readonly T[], amount: (row: T) => number): number {
  return rows.reduce((total, row) => total + amount(row), 0);
}

/** The states of jobs that hold nodes, as a filter. */
export const ACTIVE = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED";

export function isWaiting(job: { readonly state: string }): boolean {
  return job.state === "PENDING";
}

export function isRunning(job: { readonly state: string }): boolean {
  return ACTIVE.split(",").includes(job.state);
}

/** Seconds that a job has run. */
export function elapsed(job: JobRow, nowUs: number): number {
  if (job.start_at_us <= 0) return 0;
  const end = isRunning(job) || job.end_at_us <= 0 ? nowUs : job.end_at_us;
  return Math.max(0, (end - job.start_at_us) / 1e6);
}

/** The change of a job that a suggestion of the planner means, as a request takes it; null: no request can say it. */
export function changeOf(options: readonly string[]): Record<string, unknown> | null {
  const body: Record<string, unknown> = {};
  for (const option of options) {
    const [name = "", value = ""] = option.split(/[= ]/, 2);
    if (name === "--nodes" || name === "-N") body["minimum_nodes"] = Number(value);
    else if (name === "--gres") body["tres_per_node"] = `gres/${value}`;
    else if (name === "--partition" || name === "-p") body["partition"] = value;
    else if ((name === "--time" || name === "-t") && minutes(value) !== null) body["time_limit"] = set(minutes(value) ?? 0);
    else return null;
  }
  return Object.keys(body).length ? body : null;
}

export function set(number: number): { set: true; infinite: false; number: number } {
  return { set: true, infinite: false, number };
}

/** Slurm's forms of a time limit, in minutes: `30`, `1:30:00`, `2-12`, `1-00:30`; null for another text. */
export function minutes(text: string): number | null {
  const found = /^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$/.exec(text.trim());
  if (!found) return null;
  const [days, a, b, c] = found.slice(1).map((one) => (one === undefined ? null : Number(one)));
  if (days !== null && days !== undefined) return days * 1440 + (a ?? 0) * 60 + (b ?? 0) + Math.ceil((c ?? 0) / 60);
  if (c !== null && c !== undefined) return (a ?? 0) * 60 + (b ?? 0) + Math.ceil(c / 60);
  if (b !== null && b !== undefined) return (a ?? 0) + Math.ceil(b / 60);
  return a ?? null;
}
