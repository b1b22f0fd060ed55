import { expect, test } from "vitest";

import type { PingAnswer } from "../api/types";
import { controllersOf, versionsOf } from "./cluster";

test("nodes are counted by version, the newest first", () => {
  const nodes = ["0.9.0", "0.10.0", "", "0.9.0"].map((version) => ({ version }));
  expect(versionsOf(nodes)).toBe("0.10.0: 1 node, 0.9.0: 2 nodes, unknown: 1 node");
  expect(versionsOf([])).toBe("");
});

test("each controller says what it is, and whether it answers", () => {
  const pings = [{ hostname: "a", primary: true, responding: false, latency: 0 }, { hostname: "b", primary: false, responding: true, latency: 3 }];
  expect(controllersOf(pings as unknown as PingAnswer["pings"])).toBe("a (primary, does not answer); b (standby, answers)");
});
