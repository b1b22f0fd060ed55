import { describe, expect, test } from "vitest";

import type { MovedJob, PlanChangeReply } from "../api/types";
import { toggled } from "./hostlist";
import { type PlanItem, planRows } from "./plan";
import { changedItems, delay, delayText, leftOut, summary } from "./planchange";

const US = 1e6;

function moved(more: Partial<MovedJob>): MovedJob {
  return {
    job_id: 7, shown_id: "7", name: "x", user_name: "ann", partition: "main", change: "later", before_at_us: 100 * US, before_node_list: "n1",
    after_at_us: 400 * US, after_node_list: "n2", time_limit_s: 60, ...more,
  };
}

function reply(jobs: MovedJob[], more: Partial<PlanChangeReply> = {}): PlanChangeReply {
  return { now_us: 50 * US, jobs, more: 0, unseen: 0, compared: 3, not_asked: 0, ...more };
}

const PLANNED: PlanItem = { kind: "plan", id: "7", label: "7 x (ann)", nodes: "n1", start_s: 100, end_s: 160 };
const OTHER: PlanItem = { kind: "plan", id: "8", label: "8", nodes: "n1", start_s: 160, end_s: 260 };

describe("the bars of a change", () => {
  test("a job that moves is shown where it was and where it would be, others as they are", () => {
    const items = changedItems([PLANNED, OTHER], reply([moved({})]), "n1", null);
    expect(items.map((one) => [one.kind, one.nodes, one.start_s])).toEqual([
      ["gone", "n1", 50], ["plan", "n1", 160], ["was", "n1", 100], ["moved", "n2", 400],
    ]);
    expect(planRows(["n1", "n2"], items, 0, 1000).map((row) => row.lanes)).toEqual([1, 1]);
  });
  test("without a start there is no bar, without a limit no end", () => {
    const items = changedItems([], reply([moved({ change: "never", after_at_us: 0, after_node_list: "", time_limit_s: -1 })]), "", null);
    expect(items.map((one) => [one.kind, one.end_s])).toEqual([["was", Infinity]]);
  });
  test("the job that comes", () => {
    const items = changedItems([], reply([]), "", { start_at_us: 90 * US, node_list: "n[1-2]", limit_s: -1 });
    expect(items).toEqual([{ kind: "comes", id: "+", label: "The job that comes", nodes: "n[1-2]", start_s: 90, end_s: Infinity }]);
    expect(changedItems([], reply([]), "", { start_at_us: 0, node_list: "", limit_s: 60 })).toEqual([]);
  });
});

test("delays in words", () => {
  const rows = [moved({}), moved({ after_at_us: 40 * US, change: "sooner" }), moved({ after_at_us: 0, change: "never" }), moved({ change: "requeued" }), moved({ after_at_us: 100 * US, change: "elsewhere" })];
  expect(rows.map(delayText)).toEqual(["+5 min", "−1 min", "", "", ""]);
  expect(rows.map(delay)).toEqual([300, -60, null, null, 0]);
});

test("a change in a sentence, and what it leaves out", () => {
  expect(summary(reply([]))).toBe("");
  expect(summary(reply([moved({}), moved({ job_id: 8 }), moved({ change: "ends" })]))).toBe("1 running job would end, 2 jobs would start later");
  expect(leftOut(reply([], { more: 2, unseen: 1, not_asked: 1 }))).toEqual([
    "2 more jobs would move, too.", "1 job of another user, which you may not see, moves, too.",
    "1 more running job would be requeued; it is not planned again here.",
  ]);
});

test("a node is added to a list and taken from it", () => {
  expect(toggled("", "n1")).toBe("n1");
  expect(toggled("n1", "n2")).toBe("n1,n2");
  expect(toggled("n[1-3]", "n2")).toBe("n1,n3");
  expect(toggled("n1", "n1")).toBe("");
});
