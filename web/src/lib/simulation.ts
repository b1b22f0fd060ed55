import { rounded, shares, type Metric } from "./chart";
import { duration } from "./units";

/** What the simulator's page knows of policies, figures and lines, and the text of a chosen file. Pure but for the file. */

/** Policies that are offered. `onNodes`: also on a machine of nodes; the others count processors alone. */
export const POLICIES: readonly { readonly name: string; readonly title: string; readonly about: string; readonly onNodes: boolean }[] = [
  { name: "easy", title: "EASY", about: "in order, with backfill", onNodes: true },
  { name: "easy-sjbf", title: "EASY-SJBF", about: "the shortest first in gaps", onNodes: true },
  { name: "fcfs", title: "FCFS", about: "in order, without backfill", onNodes: true },
  { name: "sjf", title: "SJF", about: "the shortest first", onNodes: true },
  { name: "wfp3", title: "WFP3", about: "by wait, size and time limit", onNodes: true },
  { name: "learned", title: "Learned", about: "by what users' jobs took", onNodes: true },
  { name: "site", title: "This cluster's", about: "as it is configured: priorities, preemption, backfill", onNodes: true },
  { name: "conservative", title: "Conservative", about: "backfill that delays nobody", onNodes: false },
];
export const RECORDED = "recorded";

export function policyTitle(name: string): string {
  return name === RECORDED ? "As recorded" : POLICIES.find((one) => one.name === name)?.title ?? name;
}

const ratio = (value: number): string => value.toFixed(value < 10 ? 2 : 1);
const part = (value: number): string => `${(100 * value).toFixed(1)} %`;
const whole = (value: number): string => Math.round(value).toLocaleString("en");

/** Figures that are shown, in this order; `less`: the lowest is the best. */
export const FIGURES: readonly { readonly name: string; readonly title: string; readonly text: (value: number) => string; readonly less?: boolean }[] = [
  { name: "wait_mean_s", title: "Mean wait", text: duration, less: true },
  { name: "wait_median_s", title: "Median wait", text: duration, less: true },
  { name: "wait_p95_s", title: "Wait, 95 % below", text: duration, less: true },
  { name: "wait_max_s", title: "Longest wait", text: duration, less: true },
  { name: "wait_area_s", title: "Mean wait, by CPU time", text: duration, less: true },
  { name: "bsld_mean", title: "Mean bounded slowdown", text: ratio, less: true },
  { name: "starved_jobs", title: "Jobs that waited over 48 h", text: whole, less: true },
  { name: "makespan_s", title: "First submission to last end", text: duration, less: true },
  { name: "util_cpu", title: "CPUs in use", text: part },
  { name: "util_gres/gpu", title: "GPUs in use", text: part },
  { name: "util_mem", title: "Memory in use", text: part },
  { name: "jain_user_bsld", title: "Evenness between users, 1 is equal", text: ratio },
];

/** A wait beside an axis: short, with one unit. */
function short(seconds: number): string {
  if (seconds < 7200) return duration(seconds);
  const [amount, unit] = seconds < 172800 ? [seconds / 3600, "h"] : [seconds / 86400, "d"];
  return `${amount.toFixed(1).replace(/\.0$/, "")} ${unit}`;
}

/** Lines over time, each a chart. */
export const LINES: Readonly<Record<string, Metric>> = {
  wait_mean_s: { title: "Mean wait of the jobs submitted then", text: short, base: 10, top: 0 },
  jobs_waiting: { title: "Jobs waiting", text: rounded, base: 10, top: 0 },
  cpu_percent: shares("CPUs in use"),
  gpu_percent: shares("GPUs in use"),
  mem_percent: shares("Memory in use"),
};

/** Of a body with 16 MiB, escapes of line breaks included. */
export const LOG_CHARS_MAX = 14_000_000;
export const TOO_LARGE = "This log has more than 14 MB of text: send a part of it, or use penstock sim on the command line.";

/** The text of a log, decompressed here, so that the daemon need not. Throws an Error for one that is too large or no gzip. */
export async function logText(file: Blob): Promise<string> {
  const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  if (head[0] !== 0x1f || head[1] !== 0x8b) {
    if (file.size > LOG_CHARS_MAX) throw new Error(TOO_LARGE);
    return file.text();
  }
  const reader = file.stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new Error("This gzip file is broken: fetch it again.");
    });
    if (done) return text;
    text += value;
    if (text.length > LOG_CHARS_MAX) {
      void reader.cancel();
      throw new Error(TOO_LARGE);
    }
  }
}
