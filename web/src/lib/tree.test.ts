import { expect, test } from "vitest";

import { type Branch, keyed, partsOf, rowsOf } from "./tree";

const branch = (id: string, isLeaf = false): Branch<string> => ({ id, value: id, isLeaf });
const below = (one: Branch<string>): Branch<string>[] => (one.id.includes("/") ? [branch(`${one.id}/t`, true)] : [branch(`${one.id}/n1`), branch(`${one.id}/n2`)]);
const rows = (...open: string[]): ReturnType<typeof rowsOf<string>> => rowsOf([branch("0"), branch("1")], new Set(open), below);

test("only open branches have rows below them", () => {
  expect(rows().map((one) => one.id)).toEqual(["0", "1"]);
  expect(rows("0", "0/n2", "gone").map((one) => [one.id, one.level, one.isOpen])).toEqual([
    ["0", 1, true], ["0/n1", 2, false], ["0/n2", 2, true], ["0/n2/t", 3, false], ["1", 1, false],
  ]);
});

test("what is not open is not asked for", () => {
  const asked: string[] = [];
  rowsOf([branch("0"), branch("1")], new Set(["1"]), (one) => { asked.push(one.id); return []; });
  expect(asked).toEqual(["1"]);
});

test("keys go through the rows, into branches and out of them", () => {
  const shown = rows("0", "0/n2");
  const key = (at: number, name: string): unknown => keyed(shown, at, name);
  expect([key(0, "ArrowDown"), key(4, "ArrowDown"), key(0, "ArrowUp"), key(1, "Home"), key(1, "End")]).toEqual([{ to: 1 }, null, null, { to: 0 }, { to: 4 }]);
  expect([key(0, "ArrowRight"), key(4, "ArrowRight"), key(3, "ArrowRight")]).toEqual([{ to: 1 }, { turn: "1" }, null]);
  expect([key(0, "ArrowLeft"), key(3, "ArrowLeft"), key(4, "ArrowLeft")]).toEqual([{ turn: "0" }, { to: 2 }, null]);
  expect([key(3, "Enter"), key(1, " "), key(9, "End"), key(0, "x")]).toEqual([null, { turn: "0/n1" }, null, null]);
});

test("long lists are in parts", () => {
  expect(partsOf(Array.from({ length: 250 }, (_, n) => n)).map((one) => [one[0], one.length])).toEqual([[0, 100], [100, 100], [200, 50]]);
  expect(partsOf([])).toEqual([]);
});
