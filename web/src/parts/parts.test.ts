import { expect, test } from "vitest";

import { fitting, layout, SIZES } from "./gpugrid";
import type { Column } from "./grid";
import { filtered, sorted } from "./table";
import { windowFrom } from "./windowtable";

interface Row { n: number; t: string }
const COLUMNS: Column<Row>[] = [
  { id: "n", title: "N", value: (row) => row.n, width: 1 },
  { id: "t", title: "T", value: (row) => row.t, width: 1 },
];
const ROWS: Row[] = [{ n: 10, t: "Alpha" }, { n: 9, t: "beta" }, { n: 10, t: "gamma" }];

test("numbers sort as numbers, and equal ones keep their order", () => {
  expect(sorted(ROWS, COLUMNS, "n").map((one) => one.t)).toEqual(["beta", "Alpha", "gamma"]);
  expect(sorted(ROWS, COLUMNS, "-n").map((one) => one.t)).toEqual(["Alpha", "gamma", "beta"]);
  expect(sorted(ROWS, COLUMNS, "unknown")).toBe(ROWS);
});

test("each word of a filter must occur", () => {
  expect(filtered(ROWS, COLUMNS, "10 ALPHA").map((one) => one.t)).toEqual(["Alpha"]);
  expect(filtered(ROWS, COLUMNS, " ")).toBe(ROWS);
});

test("a table of 100,000 rows filters and sorts", () => {
  const many = Array.from({ length: 100_000 }, (_, n) => ({ n: (n * 7919) % 100_000, t: `job${n}` }));
  expect(sorted(filtered(many, COLUMNS, "job"), COLUMNS, "n")[99_999]?.n).toBe(99_999);
});

test("8,000 GPUs fit in one picture", () => {
  const at = (nodes: number): number => fitting([nodes], 8, 1200);
  expect(layout(1000, 8, 1200, at(1000)).height).toBeLessThan(600);
  expect(layout(4, 8, 1200, at(4)).size).toBe(22);
  expect(SIZES[fitting([50, 50], 8, 1200)]).toBeLessThanOrEqual(SIZES[at(50)] ?? 0); // groups share the height
});

test("a window moves when rows outside it are in sight, by whole steps", () => {
  expect(windowFrom(0, 0, 40)).toBe(0);
  expect(windowFrom(0, 260, 300)).toBe(0);
  expect(windowFrom(0, 261, 301)).toBe(100);
  expect(windowFrom(200, 150, 190)).toBe(0);
  expect(windowFrom(0, 99_900, 100_000)).toBe(99_800);
});
