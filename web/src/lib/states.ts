/** What colour a state has: five meanings, never colour alone (the word is there, too). */
export type Tone = "run" | "wait" | "good" | "bad" | "off";

const JOB: Record<string, Tone> = {
  RUNNING: "run",
  COMPLETING: "run",
  CONFIGURING: "run",
  PENDING: "wait",
  SUSPENDED: "wait",
  COMPLETED: "good",
  CANCELLED: "off",
};

export function jobTone(state: string): Tone {
  return JOB[state] ?? "bad";
}

export const HAS_ENDED: ReadonlySet<string> = new Set([
  "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE", "BOOT_FAIL", "REVOKED",
]);

const NODE_BAD = ["DOWN", "FAIL", "NOT_RESPONDING", "INVALID", "INVALID_REG", "ERROR"];
const NODE_CLOSED = ["DRAIN", "MAINTENANCE", "POWERED_DOWN"];

export function nodeTone(states: readonly string[]): Tone {
  if (states.some((one) => NODE_BAD.includes(one))) return "bad";
  if (states.some((one) => NODE_CLOSED.includes(one))) return "wait";
  return states.includes("ALLOCATED") || states.includes("MIXED") ? "run" : "good";
}

/** A GPU as it is drawn; `unused`: the one job that has it leaves it idle. */
export type GpuUse = "busy" | "unused" | "free" | "closed" | "broken";

/** `node`: the tone of its node, whose GPUs are closed with it; `idleJob`: the job that leaves it idle, 0: none is known. */
export function gpuUse(state: string, jobIds: readonly number[], node: Tone, idleJob = 0): GpuUse {
  if (state === "FAILED" || state === "UNRESPONSIVE" || node === "bad") return "broken";
  if (jobIds.length) return idleJob && jobIds.length === 1 ? "unused" : "busy";
  return state === "DRAINED" || node === "wait" ? "closed" : "free";
}

/** Letter case of a page: `Node fail`. */
export function words(state: string): string {
  const text = state.replaceAll("_", " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
