import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { ApiError, OWN, read } from "../api/client";
import type { JobsUseAnswer } from "../api/types";
import { isRunning, type JobRow } from "../lib/model";
import { Store, useStore } from "../lib/store";
import { bytes, duration, percent } from "../lib/units";
import type { OrderedColumn } from "../parts/windowtable";

/**
 * Columns of what running jobs use now. Each cell in sight says of which job it is; all of them are asked for in one request, a
 * moment after the last has come into sight, and again at the interval at which nodes measure.
 */

type Use = JobsUseAnswer["jobs"][number];

const EVERY_MS = 15_000;
const SETTLE_MS = 250;
/** As many as the daemon answers at a time. */
const JOBS_MAX = 100;

interface Known {
  readonly uses: ReadonlyMap<number, Use>;
  /** Why nothing newer is known. */
  readonly problem: string;
}

const known = new Store<Known>({ uses: new Map(), problem: "" });
/** Cells in sight, by the id of their job. */
const inSight = new Map<string, number>();
let timer = 0;

/** Asks again after this time; what is waited for already is not waited for twice. */
function askIn(ms: number): void {
  clearTimeout(timer);
  timer = inSight.size ? window.setTimeout(() => void ask(), ms) : 0;
}

async function ask(): Promise<void> {
  const ids = [...inSight.keys()].slice(0, JOBS_MAX);
  try {
    if (!document.hidden) {
      const found = (await read<JobsUseAnswer>(`${OWN}/jobs/use?jobs=${encodeURIComponent(ids.join(","))}`))?.data.jobs ?? [];
      known.set({ uses: new Map(found.map((one) => [one.job_id, one])), problem: "" });
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    known.set({ uses: new Map(), problem: error.message });
  }
  askIn([...inSight.keys()].some((id) => !ids.includes(id)) && inSight.size <= JOBS_MAX ? SETTLE_MS : EVERY_MS);
}

function look(id: string): () => void {
  inSight.set(id, (inSight.get(id) ?? 0) + 1);
  askIn(SETTLE_MS);
  return () => {
    const left = (inSight.get(id) ?? 1) - 1;
    if (left) inSight.set(id, left);
    else inSight.delete(id);
    if (!inSight.size) askIn(0);
  };
}

function Cell({ job, text }: { job: JobRow; text: (use: Use) => string }): JSX.Element {
  const { uses, problem } = useStore(known);
  useEffect(() => look(job.shown_id), [job.shown_id]);
  const use = uses.get(job.job_id);
  const found = use ? text(use) : "";
  return found ? <>{found}</> : <span class="faint" title={problem || "not known"}>–</span>;
}

function live(id: string, title: string, width: number, text: (use: Use) => string): OrderedColumn<JobRow> {
  const textOf = (job: JobRow): string => {
    const use = isRunning(job) ? known.value.uses.get(job.job_id) : undefined;
    return use ? text(use) : "";
  };
  return {
    id, title, order: "", width, isNumber: true, isHidden: true, isUnordered: true, value: textOf, text: textOf,
    show: (job) => isRunning(job) && <Cell job={job} text={text} />,
  };
}

function told<T>(value: T | null, text: (value: T) => string): string {
  return value === null ? "" : text(value);
}

export const LIVE: readonly OrderedColumn<JobRow>[] = [
  live("cpuused", "CPU time so far", 10, (use) => told(use.cpu_used_s, duration)),
  live("cpuuse", "CPU use so far", 9.5, (use) => told(use.cpu_percent, percent)),
  live("memused", "Memory, most so far", 12, (use) => told(use.memory_used_bytes, bytes)),
  live("gpuuse", "GPU use now", 8.5, (use) => told(use.gpu_percent, percent)),
  live("gpumem", "GPU memory now", 10.5, (use) => told(use.gpu_memory_used_bytes, bytes)),
  live("gpupower", "GPU power now", 9.5, (use) => told(use.gpu_power_w, (watts) => `${watts.toLocaleString("en")} W`)),
];
