import { describe, expect, test } from "vitest";

import type { BudgetInfo, JobInfo, Node, SwitchInfo } from "../api/types";
import { budgetShare, isBudgetLow } from "./budgets";
import { endingOf } from "./endings";
import { groupsOf, legendOf, paintOf } from "./gpucolour";
import { figuresOf, figuresText, type NodeProfile } from "./gpufigures";
import { type Gpu, idleAllocations, type NodeGpu, type NodeRow, nodeRows } from "./model";
import { presetsOf } from "./presets";
import { readGpus, readTres, tresName } from "./tres";

function gpu(state: string, jobs: number[], use: NodeGpu["use"]): NodeGpu {
  return { gpu: { state, job_ids: jobs } as NodeGpu["gpu"], use };
}

describe("the picture of all GPUs", () => {
  test("colours mean use, health or job", () => {
    const broken = gpu("FAILED", [9], "broken");
    expect(paintOf("use", broken)).toEqual({ colour: "--gpu-broken", text: "broken", isCrossed: true, isHollow: false });
    expect(paintOf("use", gpu("HEALTHY", [], "free"))).toEqual({ colour: "--gpu-free", text: "idle", isCrossed: false, isHollow: false });
    expect(paintOf("use", gpu("HEALTHY", [9], "unused"))).toEqual({ colour: "--gpu-unused", text: "left idle", isCrossed: false, isHollow: true });
    expect(paintOf("health", gpu("SUSPECT", [], "free")).text).toBe("suspect");
    expect(paintOf("health", gpu("A_NEW_ONE", [], "free"))).toEqual({ colour: "--gpu-closed", text: "a new one" });
    expect([paintOf("job", broken), paintOf("job", gpu("HEALTHY", [], "free"))].map((one) => one.text)).toEqual(["job 9", "no job"]);
    expect(paintOf("job", broken).colour).not.toBe(paintOf("job", gpu("HEALTHY", [10], "busy")).colour);
    expect(legendOf("health").map((one) => one.text)).toEqual(["healthy", "suspect", "drained", "failed"]);
  });
  test("nodes are grouped by the lowest switch", () => {
    const rows = ["n1", "n2", "n3", "login"].map((name) => ({ node: { name } }) as NodeRow);
    const switches = [
      { name: "leaf1", level: 0, nodes: "n[1-2]" }, { name: "leaf2", level: 0, nodes: "n3" }, { name: "top", level: 1, nodes: "n[1-3]" },
    ] as SwitchInfo[];
    const named = groupsOf(rows, switches).map((one) => [one.name, one.rows.map((row) => row.node.name).join(" ")]);
    expect(named).toEqual([["leaf1", "n1 n2"], ["leaf2", "n3"], ["Under no switch", "login"]]);
    expect(groupsOf(rows, [])).toEqual([{ name: "", rows }]);
  });
});

test("what jobs leave idle is counted by job and node", () => {
  const idle = (node: string, jobs: number[], job: number, since: number): Gpu =>
    ({ node, state: "HEALTHY", job_ids: jobs, idle_job_id: job, idle_since_us: since }) as Gpu;
  const gpus = [
    idle("n1", [7], 7, 500), idle("n1", [7], 7, 400), idle("n1", [8], 0, 0), idle("n1", [], 0, 0), idle("n2", [7], 7, 300), idle("n2", [9, 10], 9, 600),
  ];
  const rows = nodeRows([{ name: "n1", state: ["MIXED"] }, { name: "n2", state: ["MIXED"] }] as Node[], gpus);
  expect(rows.map((one) => one.gpus.map(({ use }) => use).join(" "))).toEqual(["unused unused busy free", "unused busy"]); // another job has a part of the last
  expect(idleAllocations(rows)).toEqual([
    { jobId: 7, node: "n2", gpus: 1, sinceUs: 300 }, { jobId: 7, node: "n1", gpus: 2, sinceUs: 500 }, { jobId: 9, node: "n2", gpus: 1, sinceUs: 600 },
  ]);
});

test("what a GPU does now is the last point of the steps that run", () => {
  const step = (start: number, util: (number | null)[], watts: number): NodeProfile => ({
    step: "batch", node: "n1", start_at_us: start * 1e6, interval_s: 15, tasks: [],
    lines: [{ kind: "gpu", device: "GPU-1", metrics: [
      { name: "gpu_utilization_percent", mean: 0, max: 0, means: util, maxima: util },
      { name: "gpu_power_watts", mean: 0, max: 0, means: [1, watts], maxima: [] },
    ] }],
  });
  const [batch, srun, old] = [step(1000, [80, 30], 300), step(1000.5, [0, 25], 310), step(100, [9, 9], 99)];
  expect(figuresOf([old, batch, srun], "GPU-1", 1040e6)).toEqual({ utilization: 55, powerW: 310, temperatureC: null });
  expect(figuresOf([step(1000, [80, null], 300)], "GPU-1", 1040e6)?.utilization).toBeNull();
  expect([figuresOf([old], "GPU-1", 1040e6), figuresOf([batch], "GPU-2", 1040e6), figuresOf([], "GPU-1", 0)]).toEqual([null, null, null]);
  expect(figuresText({ utilization: 90, powerW: 311.6, temperatureC: 54 })).toBe("90 % · 312 W · 54 °C");
  expect(figuresText({ utilization: null, powerW: 0, temperatureC: null })).toBe("0 W");
});

test("budgets near their end", () => {
  const budget = { amount: "100", used: 60, reserved: 30, problem: "" } as BudgetInfo;
  expect([budgetShare(budget), isBudgetLow(budget)]).toEqual([0.9, true]);
  expect(isBudgetLow({ ...budget, reserved: 29 })).toBe(false);
  expect(isBudgetLow({ ...budget, problem: "accounting is off" })).toBe(false);
  expect(budgetShare({ ...budget, amount: "0" })).toBe(1);
});

function ended(state: string, code: number, signal = 0): JobInfo {
  return {
    job_state: [state], failed_node: "n2", time_limit: { set: true, infinite: false, number: 90 },
    exit_code: { return_code: { set: true, number: code }, signal: { id: { set: signal > 0, number: signal }, name: "" } },
  } as unknown as JobInfo;
}

test("why a job ended", () => {
  expect([endingOf(ended("COMPLETED", 0)), endingOf(ended("RUNNING", 0)), endingOf(ended("CANCELLED", 0, 15))]).toEqual(["", "", ""]);
  expect(endingOf(ended("FAILED", 3))).toContain("exit code 3");
  expect(endingOf(ended("FAILED", 127))).toContain("was not found");
  expect(endingOf(ended("FAILED", 137))).toContain("SIGKILL");
  expect(endingOf(ended("FAILED", 0, 11))).toContain("SIGSEGV");
  expect(endingOf(ended("TIMEOUT", 0))).toContain("of 1 h 30 min");
  expect(endingOf(ended("NODE_FAIL", 0))).toContain("n2");
  expect(endingOf(ended("OUT_OF_MEMORY", 0))).toContain("--mem");
});

test("presets are of each type: one, and those of a node", () => {
  const gpus = [["h200", "n1"], ["h200", "n1"], ["a100", "n2"], ["h200", "n3"]].map(([type = "", node = ""]) => ({ type, node }));
  expect(presetsOf(gpus)).toEqual([
    { title: "1 a100", gpus: "a100:1", isNode: false }, { title: "1 h200", gpus: "h200:1", isNode: false },
    { title: "a node with 2 h200", gpus: "h200:2", isNode: true },
  ]);
  expect(presetsOf([{ type: "", node: "n1" }])).toEqual([{ title: "1 GPU", gpus: "1", isNode: false }]);
});

test("resources are read as people say them", () => {
  expect(readTres("cpu=4,mem=10847M,node=1,billing=4,gres/gpu=2,gres/gpu:h200=2")).toBe("4 CPUs, 10.6 GiB, 1 node, 2 GPUs (2 h200)");
  expect(readTres("cpu=1,mem=1.50G,gres/shard=3,license/matlab=2")).toBe("1 CPU, 1.5 GiB, 3 shard, 2 matlab");
  expect(readTres("gres/gpu:a100=1")).toBe("1 a100");
  expect([readTres(""), readTres("mem=?")]).toEqual(["", "memory ?"]);
  expect(["cpu", "gres/gpu:h200", "gres/gpu (1 out of service)", "license/x"].map(tresName)).toEqual(["CPUs", "h200", "GPUs (1 out of service)", "x"]);
  expect(["1", "2", "h200:8", "a100=1", "a:1,b:2"].map(readGpus)).toEqual(["1 GPU", "2 GPUs", "8 h200", "1 a100", "a:1,b:2"]);
});
