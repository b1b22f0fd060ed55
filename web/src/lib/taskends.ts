/** How the tasks of a step ended. Pure. */

import type { StepsAnswer } from "../api/types";

type Step = StepsAnswer["steps"][number];
export type TaskEnd = Step["task_ends"][number];

export interface EndedTask {
  readonly rank: number;
  readonly end: TaskEnd;
}

/** The ranges of `0-3,8,10-20:2`: first, last, step. */
function rangesOf(ranks: string): { first: number; last: number; step: number }[] {
  return ranks.split(",").flatMap((one) => {
    const found = /^(\d+)(?:-(\d+)(?::(\d+))?)?$/.exec(one);
    if (!found) return [];
    const first = Number(found[1]);
    return [{ first, last: Number(found[2] ?? first), step: Math.max(1, Number(found[3] ?? 1)) }];
  });
}

/** At most `most` tasks that did not end with 0, in the order of the answer, and how many others there are. */
export function failedTasks(step: Step, most: number): { tasks: EndedTask[]; rest: number } {
  const tasks: EndedTask[] = [];
  let rest = step.task_ends_left_out;
  for (const end of step.task_ends) {
    for (const { first, last, step: by } of rangesOf(end.ranks)) {
      const size = Math.floor((last - first) / by) + 1;
      const taken = Math.min(size, most - tasks.length);
      for (let at = 0; at < taken; at++) tasks.push({ rank: first + at * by, end });
      rest += size - taken;
    }
  }
  return { tasks, rest };
}

/** How a task ended, as its cell has it; "" = not known. */
export function endOfTask(step: Step, node: string, rank: number): string {
  const found = step.task_ends.find((one) => one.node === node
    && rangesOf(one.ranks).some(({ first, last, step: by }) => rank >= first && rank <= last && (rank - first) % by === 0));
  if (found) return endText(found);
  const isTold = step.task_ends.length > 0 || (step.exit_code === 0 && step.exit_signal === 0);
  return step.end_at_us > 0 && isTold && step.task_ends_left_out === 0 ? "0" : "";
}

export function endText(end: TaskEnd): string {
  if (end.kind === "NOT_STARTED") return "not started";
  if (end.kind !== "EXITED") return "unknown";
  return end.exit_signal ? `signal ${end.exit_signal}` : `${end.exit_code}`;
}
