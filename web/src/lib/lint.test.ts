import { expect, test } from "vitest";

import { type Finding, lineRemarks, placeIn, stillSaid } from "./lint";

function finding(line: number, severity = "warning"): Finding {
  return { line, column: 0, severity, rule: "r", text: `of ${line}`, fix: "" };
}

test("what is said of lines that changed is gone at once", () => {
  const all = [finding(0), finding(1), finding(2)];
  expect(stillSaid(all, "a\nb", "a\nb")).toEqual(all);
  expect(stillSaid(all, "a\nb", "a\nc").map((one) => one.line)).toEqual([1]);
  expect(stillSaid(all, "a\nb", "x\na\nb")).toEqual([]);
});

test("remarks are in the order of lines, one for a line that is refused", () => {
  const problems = [{ line: 2, text: "unknown" }, { line: 0, text: "not passed on" }];
  const found = lineRemarks(problems, [finding(2), { ...finding(3, "error"), column: 9, fix: "--time=1" }, finding(4, "error")]);
  expect(found.map((one) => [one.line, one.column, one.severity, one.text, one.fix])).toEqual([
    [1, 0, "error", "not passed on", ""], [2, 0, "warning", "of 2", ""], [3, 9, "error", "unknown", "--time=1"], [4, 0, "error", "of 4", ""],
  ]);
});

test("a place is counted in characters, whatever their length", () => {
  const script = "#!/bin/sh\n#\u{1f600} x\nz";
  expect(placeIn(script, 2, 4)).toBe(script.indexOf("x"));
  expect(placeIn(script, 3, 1)).toBe(script.indexOf("z"));
  expect(placeIn(script, 1, 0)).toBe(0);
  expect(placeIn(script, 9, 9)).toBe(script.length);
});
