import { expect, test } from "vitest";

import { fitting, layout, SIZES } from "./gpugrid";
import { type Column, drawnNow, spanInSight, withMargin } from "./grid";
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

test("rows in sight are drawn first, and those around them after", () => {
  const sight = spanInSight(3600, 720, 1000);
  expect(sight).toEqual({ first: 100, last: 120 });
  expect(drawnNow(null, sight, 1000)).toEqual(sight); // another list
  const around = withMargin(sight, 1000);
  expect(around.first).toBeLessThan(100);
  expect(around.last).toBeGreaterThan(120);
  expect(drawnNow(around, spanInSight(3636, 720, 1000), 1000)).toEqual(around); // scrolled by a row: nothing is missing
  const jump = spanInSight(18_000, 720, 1000);
  expect(drawnNow(around, jump, 1000)).toEqual(jump);
});

test("no row is drawn that is not there", () => {
  expect(spanInSight(0, 800, 0)).toEqual({ first: 0, last: 0 });
  expect(withMargin(spanInSight(0, 800, 5), 5)).toEqual({ first: 0, last: 5 });
  expect(spanInSight(3600, 720, 50)).toEqual({ first: 50, last: 50 }); // rows have gone before the scroll is heard of
  expect(drawnNow({ first: 20, last: 60 }, { first: 30, last: 50 }, 50)).toEqual({ first: 20, last: 50 });
});
