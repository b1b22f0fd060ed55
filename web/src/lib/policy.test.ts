import { expect, test } from "vitest";

import { policyRemarks, signOf } from "./policy";

function remarks(...texts: string[]): unknown[] {
  return policyRemarks(texts.map((description) => ({ description, source: "#/policy" }))).map((one) => [one.line, one.column, one.text]);
}

test("mistakes stand at their lines", () => {
  expect(remarks("policy:3: qos x: there is no key Y", "it is for cluster a, this is b")).toEqual([
    [3, 0, "qos x: there is no key Y"], [0, 0, "it is for cluster a, this is b"],
  ]);
  const yaml = 'policy is not YAML: while parsing a block mapping in "<byte string>", line 1, column 1 did not find expected in "<byte string>", line 4, column 2';
  expect(remarks(yaml)).toEqual([[4, 2, yaml]]);
});

test("a sign is a word, too", () => {
  expect(["+", "~", "-", "?"].map(signOf)).toEqual([["Added", "good"], ["Changed", "wait"], ["Removed", "bad"], ["?", "off"]]);
});
