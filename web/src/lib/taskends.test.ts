import { expect, test } from "vitest";

import type { StepsAnswer } from "../api/types";
import { endOfTask, failedTasks, type TaskEnd } from "./taskends";

type Step = StepsAnswer["steps"][number];
const end = (ranks: string, rest: Partial<TaskEnd> = {}): TaskEnd => ({ node: "n1", ranks, kind: "EXITED", exit_code: 0, exit_signal: 0, ...rest });
const step = (task_ends: TaskEnd[], rest: Partial<Step> = {}): Step =>
  ({ tasks: 12, end_at_us: 5, exit_code: 3, exit_signal: 0, task_ends, task_ends_left_out: 0, ...rest }) as Step;
const ranks = (one: Step, most: number): [number[], number] => {
  const found = failedTasks(one, most);
  return [found.tasks.map((task) => task.rank), found.rest];
};

test("tasks that failed are in the order of the answer, and no more than wanted", () => {
  const failed = step([end("7", { exit_code: 3 }), end("0-2,4-8:2", { exit_signal: 9 })], { task_ends_left_out: 5 });
  expect(ranks(failed, 100)).toEqual([[7, 0, 1, 2, 4, 6, 8], 5]);
  expect(ranks(failed, 5)).toEqual([[7, 0, 1, 2, 4], 7]);
  expect(ranks(step([]), 5)).toEqual([[], 0]);
  expect(ranks(step([end("0-3999999")]), 2)).toEqual([[0, 1], 3_999_998]);
});

test("the end of one task", () => {
  const failed = step([end("7", { exit_code: 3 }), end("4-8:2", { node: "n2", exit_signal: 9 }), end("9", { node: "n3", kind: "UNKNOWN" }), end("10", { node: "n4", kind: "NOT_STARTED" })]);
  const told = (node: string, rank: number): string => endOfTask(failed, node, rank);
  expect([told("n1", 7), told("n2", 6), told("n3", 9), told("n4", 10), told("n2", 5), told("n1", 6)]).toEqual(["3", "signal 9", "unknown", "not started", "0", "0"]);
});

test("what is not known is not said to be 0", () => {
  expect(endOfTask(step([end("7")], { task_ends_left_out: 1 }), "n1", 3)).toBe("");
  expect(endOfTask(step([]), "n1", 3)).toBe(""); // a record of an earlier release
  expect(endOfTask(step([], { exit_code: 0 }), "n1", 3)).toBe("0");
  expect(endOfTask(step([], { exit_code: 0, end_at_us: 0 }), "n1", 3)).toBe("");
});
