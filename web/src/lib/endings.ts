import type { JobInfo } from "../api/types";
import { duration } from "./units";

/** Why a job ended, in words; "": there is nothing to explain. */

/** Exit codes that shells give a meaning. */
const CODES: ReadonlyMap<number, string> = new Map([
  [126, "a program could not be run: it is not executable, or of another architecture"],
  [127, "a program was not found: a module may not be loaded, or PATH differs on the node"],
]);
/** Shells add the number of the signal that ended their last program. */
const SIGNALLED = 128;
const SIGNALS: ReadonlyMap<number, string> = new Map([
  [2, "SIGINT"], [4, "SIGILL: an instruction that this processor does not have"], [6, "SIGABRT: the program gave up"],
  [7, "SIGBUS"], [8, "SIGFPE"], [9, "SIGKILL: often for want of memory"], [11, "SIGSEGV: a fault of the program"], [15, "SIGTERM"],
]);

function signal(number: number): string {
  return SIGNALS.get(number) ?? `signal ${number}`;
}

function ofExit(job: JobInfo): string {
  const { signal: by, return_code: code } = job.exit_code;
  if (by.id.set && by.id.number) return `It was ended by ${signal(by.id.number)}.`;
  const number = code.number;
  const known = CODES.get(number);
  if (known) return `Its script ended with exit code ${number}: ${known}.`;
  if (number > SIGNALLED && number <= SIGNALLED + 64) return `Its script ended with exit code ${number}: its last program was ended by ${signal(number - SIGNALLED)}.`;
  return number ? `Its script ended with exit code ${number}, which its output may explain.` : "";
}

const STATES: ReadonlyMap<string, (job: JobInfo) => string> = new Map([
  ["FAILED", ofExit],
  ["TIMEOUT", (job: JobInfo) => `It was ended at its time limit${job.time_limit.set && !job.time_limit.infinite ? ` of ${duration(job.time_limit.number * 60)}` : ""}. Give it more time, or let it save its work and continue.`],
  ["OUT_OF_MEMORY", () => "It needed more memory than it had asked for. Ask for more, with --mem or --mem-per-cpu."],
  ["NODE_FAIL", (job: JobInfo) => `Its node failed${job.failed_node ? `: ${job.failed_node}` : ""}. It is no fault of the job.`],
  ["PREEMPTED", () => "It made room for a job of higher priority."],
  ["DEADLINE", () => "It could not end before its deadline."],
  ["BOOT_FAIL", () => "Its nodes did not boot."],
]);

export function endingOf(job: JobInfo): string {
  return STATES.get(job.job_state[0] ?? "")?.(job) ?? "";
}
