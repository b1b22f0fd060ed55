import { describe, expect, test } from "vitest";

import { type Change, ChangeReader, concern } from "./changes";

const change: Change = { kind: "job", gone: false, nodes: "", start_time: 0, attempt: 0, job_id: 7, array_job_id: 0, user_name: "ann" };
const started: Change = { ...change, nodes: "n1", start_time: 5 };
const gone: Change = { ...change, gone: true, job_id: 0, user_name: "" };
const node: Change = { ...change, kind: "node", nodes: "n1", job_id: 0, user_name: "" };
const reservation: Change = { ...node, kind: "reservation" };

describe("what a change concerns", () => {
  const paths: Record<string, readonly string[]> = {
    nodes: ["/slurm/v0.0.46/nodes", "/slurm/v0.0.46/node/n1", "/penstock/v1/gpus", "/penstock/v1/gpus?nodes=n1", "/penstock/v1/jobs?nodes=n1"],
    jobs: ["/penstock/v1/jobs?order=name&count=9", "/penstock/v1/jobs/wide?order=name&count=9", "/penstock/v1/queue?states=PENDING", "/penstock/v1/jobs?users=bob,ann&count=8"],
    job: ["/penstock/v1/jobs/7/story", "/penstock/v1/jobs/7_2/story", "/slurmdb/v0.0.46/job/7"],
    other: ["/penstock/v1/jobs?users=bob&states=RUNNING", "/penstock/v1/jobs/70/story", "/slurmdb/v0.0.46/job/17"],
    never: ["/slurm/v0.0.46/partitions", "/slurmdb/v0.0.46/associations", "/penstock/v1/config/diff", "/penstock/v1/topology", "/penstock/v1/jobs/7/script", "/penstock/v1/gpus/readings?nodes=n1"],
    down: ["/penstock/v1/nodes/events?nodes=n1"],
    reserved: ["/slurm/v0.0.46/reservations"],
    all: ["/penstock/v1/jobs/70/why", "/slurm/v0.0.46/job/70", "/penstock/v1/fits", "/penstock/v1/audit?start=1", "/new?x=1"],
  };
  test.each([
    ["a job that came", change, "jobs job all"], ["a job that began", started, "nodes jobs job all"],
    ["a job that was requeued", { ...change, attempt: 1 }, "nodes jobs job all"],
    ["a task of an array", { ...change, job_id: 9, array_job_id: 7 }, "jobs job all"],
    ["a node", node, "nodes down all"], ["a reservation", reservation, "nodes reserved all"],
  ])("%s", (_, one, concerned) => {
    for (const [group, some] of Object.entries(paths)) {
      const is = concerned.split(" ").includes(group);
      expect([group, some.map((path) => concern([one], path))]).toEqual([group, some.map(() => is)]);
    }
  });
  test("what is gone was in any list, and on no node", () => {
    expect(concern([gone], "/penstock/v1/jobs?users=bob")).toBe(true);
    expect(concern([gone], "/penstock/v1/jobs/7/story")).toBe(false);
    expect(concern([gone], "/penstock/v1/gpus")).toBe(false);
  });
  test("a plan follows nodes, too", () => {
    expect(concern([node], "/penstock/v1/jobs?states=PENDING&order=planned_start_at_us")).toBe(true);
    expect(concern([node], "/penstock/v1/jobs?order=-job_id")).toBe(false);
    expect(concern([change, node], "/penstock/v1/gpus")).toBe(true);
  });
  test("the parts of a heterogeneous job follow every job", () => {
    expect(concern([change], "/penstock/v1/jobs/12+1/story")).toBe(true);
    expect(concern([change], `/penstock/v1/jobs/${encodeURIComponent("12+1")}/story`)).toBe(true);
  });
  test("all of everything, and nothing of nothing", () => {
    for (const path of Object.values(paths).flat()) expect([concern(null, path), concern([], path)]).toEqual([true, false]);
  });
});

test("events are read in any parts", () => {
  const text = `id: 1\nevent: hello\ndata: {"last":1}\n\nid: 2\nevent: job\ndata: ${JSON.stringify(change)}\n\n:\n\nevent: node\ndata: {broken\n\nevent: missed\ndata: {"last":9}\n\n`;
  for (const size of [1, 7, 1000]) {
    const reader = new ChangeReader();
    const found = [];
    for (let first = 0; first < text.length; first += size) found.push(...reader.read(text.slice(first, first + size)));
    expect(found).toEqual([null, change, null, null]);
  }
});
