import { expect, test } from "vitest";

import type { TresAnswer, UsageAnswer, UsageHoursAnswer, UtilizationAnswer } from "../api/types";
import { keyColumns, sizeClass } from "./jobreports";
import { hourly, usedHourly } from "./lastday";
import { gpuTypes, usageRows } from "./reports";

test("use is a row for each group, with the GPUs of each type", () => {
  const rows = [["ann", "cpu", 40], ["ann", "gres/gpu", 30], ["ann", "gres/gpu:h100", 20], ["ann", "gres/gpu:a100", 10], ["bob", "cpu", 5]] as const;
  const answer = { rows: rows.map(([user, tres, value]) => ({ keys: [user], tres, values: [value] })) } as unknown as UsageAnswer;
  const [ann, bob] = usageRows(answer);
  expect([ann?.cpu_s, ann?.gpu_s, ann?.type_s.get("gres/gpu:h100"), ann?.type_s.get("gres/gpu:a100")]).toEqual([40, 30, 20, 10]);
  expect([bob?.keys, bob?.cpu_s, bob?.gpu_s]).toEqual([["bob"], 5, 0]);
  const counted = { TRES: [["cpu", ""], ["gres", "gpu"], ["gres", "gpu:h100"], ["gres", "gpu:a100"], ["gres", "shard"]].map(([type, name]) => ({ type, name })) };
  expect(gpuTypes(counted as unknown as TresAnswer)).toEqual(["gres/gpu:a100", "gres/gpu:h100"]);
});

test("hours are means of what was counted, a line for each type", () => {
  const hour = (at: number, tres: string, allocated: number): object => ({ at_us: at * 3600e6, tres, allocated_s: allocated, reported_s: 4 * 3600, count: 4 });
  const answer = { start_at_us: 0, end_at_us: 3 * 3600e6, hours: [hour(0, "a", 3600), hour(2, "a", 7200), hour(1, "b", 14_400), hour(1, "c", 1)] };
  const parts = ["a", "b"].map((tres) => [tres, tres, (one: { allocated_s: number }) => one.allocated_s] as const);
  const found = hourly(answer as unknown as UtilizationAnswer, parts);
  expect([found.most, ...found.series.map((one) => one.means)]).toEqual([4, [1, null, 2], [null, 4, null]]);
  expect(found.series.map((one) => [one.label, one.mean, one.max])).toEqual([["a", 1.5, 2], ["b", 4, 4]]);
});

test("what a report has rows for", () => {
  expect(["0", "1", "2", "4", "8"].map(sizeClass)).toEqual(["0", "1", "2–3", "4–7", "8–15"]);
  const texts = (by: string, ...keys: string[]): string[] => keyColumns<{ keys: string[] }>(by).map((one) => one.text?.({ keys }) ?? "");
  expect([texts("partition,gpu_type", "main", "h100"), texts("gpu_type", ""), texts("gpu_type", "gpu")]).toEqual([["main", "h100"], ["none"], ["of no type"]]);
  const [size] = keyColumns<{ keys: string[] }>("gpus");
  expect([size?.value({ keys: ["16"] }), size?.text?.({ keys: ["16"] })]).toEqual([16, "16–31"]);
});

test("who used most has a line each: so many at a time", () => {
  const groups = [{ key: "lab", total_s: 10_800, hours: [3600, 7200, 0] }, { key: "<b>", total_s: 3600, hours: [0, 0, 3600] }];
  const found = usedHourly({ start_at_us: 0, groups } as unknown as UsageHoursAnswer);
  expect(found.most).toBe(2);
  expect(found.series.map((one) => [one.label, one.means, one.mean, one.max])).toEqual([["lab", [1, 2, 0], 1, 2], ["<b>", [0, 0, 1], 1 / 3, 1]]);
  expect(usedHourly({ start_at_us: 0, groups: [] } as unknown as UsageHoursAnswer)).toEqual({ most: 0, series: [] });
});
