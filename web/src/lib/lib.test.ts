import { describe, expect, test } from "vitest";

import { auditRow } from "./audit";
import { alone, METRICS, timesOf, topOf } from "./chart";
import { csv } from "./csv";
import { expand, names } from "./hostlist";
import { changeOf, minutes } from "./model";
import { jobOf, memoryMb, optionsOf, valueOf, withOption } from "./options";
import { LANES_MAX, marks, planRows } from "./plan";
import { newRequestKey } from "./requestkey";
import { link, parseRoute } from "./route";
import { gpuUse, jobTone, nodeTone, words } from "./states";
import { bytes, does, duration, gpusOf, limit, memory, moment, percent, relative, tickText } from "./units";

describe("units", () => {
  test("every number has one", () => {
    expect([45, 59.6, 720, 12000, 86400, 187200].map(duration)).toEqual(["45 s", "1 min", "12 min", "3 h 20 min", "1 d", "2 d 4 h"]);
    expect([limit(-1), limit(60)]).toEqual(["unlimited", "1 min"]);
    expect([676, 5423, 143771, 2097152].map(memory)).toEqual(["676 MiB", "5.3 GiB", "140 GiB", "2 TiB"]);
  });
  test("sizes and shares", () => {
    expect([0, 512, 1536, 130 * 2 ** 30].map(bytes)).toEqual(["0 B", "512 B", "1.5 KiB", "130 GiB"]);
    expect([0, 0.44, 9.96, 37.4, 148].map(percent)).toEqual(["0 %", "0.4 %", "10 %", "37 %", "148 %"]);
  });
  test("verbs follow their number", () => {
    expect([0, 1, 2].map((one) => does(one, "has", "have"))).toEqual(["0 have", "1 has", "2 have"]);
  });
  test("times", () => {
    expect(moment(0)).toBe("–");
    expect(relative(5_000_000 + 90e6, 5_000_000)).toBe("in 1 min");
    expect(relative(5_000_000, 5_000_000 + 7200e6)).toBe("2 h ago");
    expect(relative(400 * 86400e6, 1)).toBe("in more than a year");
  });
  test("GPUs of a TRES text", () => {
    expect(gpusOf("cpu=4,mem=1352M,gres/gpu=6,gres/gpu:h200=6")).toBe(6);
    expect(gpusOf("cpu=4")).toBe(0);
  });
});

describe("hostlists", () => {
  test.each([
    ["n[1-4,7],login1", "n3", true], ["n[1-4,7],login1", "n7", true], ["n[1-4,7],login1", "login1", true],
    ["n[1-4,7]", "n5", false], ["n[1-4]", "n10", false], ["n[8-12]", "n10", true], ["n[8-12]", "n7", false],
    ["n[01-12]", "n07", true], ["n[01-12]", "n7", false], ["r[1-2]n[1-3]", "r2n3", true], ["r[1-2]n[1-3]", "r3n1", false],
    ["n1", "n11", false], ["", "n1", false],
  ])("%s has %s: %s", (list, node, is) => {
    expect(names(list, node)).toBe(is);
  });
});

test("CSV quotes, and marks what a spreadsheet would take for a formula", () => {
  expect(csv([["a,b", 'say "x"', "=HYPERLINK(1)", "-5", "-x"]])).toBe('"a,b","say ""x""",\'=HYPERLINK(1),-5,\'-x\r\n');
});

test("routes go there and back, whatever a name holds", () => {
  const path = ["nodes", "a/b?c#d&é"];
  const found = parseRoute(link(path, new URLSearchParams({ q: "x y&z" })));
  expect(found.path).toEqual(path);
  expect(found.query.get("q")).toBe("x y&z");
  expect(parseRoute("#/jobs/%E0%A4%A").path).toEqual(["jobs", "%E0%A4%A"]);
});

test("time limits in Slurm's forms", () => {
  expect(["30", "1:30:00", "2-12", "1-00:30", "5:30", "x", "1:2:3:4", ""].map(minutes)).toEqual([30, 90, 3600, 1470, 6, null, null, null]);
});

test("suggestions become changes, or none", () => {
  expect(changeOf(["--nodes=2", "--gres=gpu:2"])).toEqual({ minimum_nodes: 2, tres_per_node: "gres/gpu:2" });
  expect(changeOf(["--time=30"])).toEqual({ time_limit: { set: true, infinite: false, number: 30 } });
  expect(changeOf(["without --exclusive"])).toBeNull();
});

test("states", () => {
  expect([jobTone("RUNNING"), jobTone("NODE_FAIL"), nodeTone(["IDLE", "DRAIN"]), nodeTone(["MIXED"]), words("NODE_FAIL")])
    .toEqual(["run", "bad", "wait", "run", "Node fail"]);
  expect(nodeTone(["IDLE", "PLANNED"])).toBe("good"); // idle, and kept for a job that waits
  expect([gpuUse("HEALTHY", [1], "run"), gpuUse("HEALTHY", [], "wait"), gpuUse("FAILED", [1], "run"), gpuUse("HEALTHY", [], "good")])
    .toEqual(["busy", "closed", "broken", "free"]);
});

describe("options of a script", () => {
  const SCRIPT = '#!/bin/bash\n#SBATCH -J "a b" -N2 --exclusive # wide\n#SBATCH --gres gpu:2\n\necho\n#SBATCH --time=5\n';
  test("are read as sbatch reads them", () => {
    expect(optionsOf(SCRIPT)).toEqual({
      options: [
        { name: "job-name", value: "a b", line: 1 }, { name: "nodes", value: "2", line: 1 }, { name: "exclusive", value: "", line: 1 },
        { name: "gres", value: "gpu:2", line: 2 },
      ],
      problems: [],
    });
  });
  test("none is ignored", () => {
    const lines = ["#!/bin/sh", "#SBATCH --signal=USR1", "#SBATCH --nodes", "#SBATCH --time=soon", "#SBATCH word"].join("\n");
    expect(optionsOf(lines).problems.map((one) => [one.line, one.text])).toEqual([
      [1, "--signal=USR1: not known to this form, sbatch may take it"], [2, "--nodes needs a value"],
      [4, "word: not known to this form, sbatch may take it"], [3, '--time: "soon" cannot be read'],
    ]);
  });
  test("a word of the language's own objects is an unknown option", () => {
    for (const word of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
      const script = `#!/bin/sh\n#SBATCH --${word}=1\n`;
      expect(optionsOf(script)).toEqual({ options: [], problems: [{ line: 1, text: `--${word}=1: not known to this form, sbatch may take it` }] });
      expect(jobOf(script, {})).toEqual({ script });
      expect(withOption(script, "comment", "x")).toContain("--comment=x");
    }
  });
  test("become a job", () => {
    const job = jobOf("#!/bin/sh\n#SBATCH --gres=gpu:1 --gpus-per-node=h200:2 --mem=4G -t 1-0 -n 8 -H -w n1,n2\n", { name: "x" });
    expect({ ...job, script: "" }).toEqual({
      name: "x", script: "", tres_per_node: "gres/gpu:1,gres/gpu:h200:2", memory_per_node: { set: true, infinite: false, number: 4096 },
      time_limit: { set: true, infinite: false, number: 1440 }, tasks: 8, hold: true, required_nodes: ["n1", "n2"],
    });
  });
  test("are written where they stand, or below the others", () => {
    const changed = withOption(SCRIPT, "nodes", "4");
    expect(changed.split("\n")[1]).toBe('#SBATCH --job-name="a b" --exclusive --nodes=4 # wide');
    expect(withOption(changed, "gres", "")).toBe(changed.replace("#SBATCH --gres gpu:2\n", ""));
    expect(withOption(SCRIPT, "qos", "low").split("\n")[3]).toBe("#SBATCH --qos=low");
    expect(withOption("hostname", "qos", "low")).toBe("#SBATCH --qos=low\nhostname");
  });
  test.each(["<script>alert(1)</script>", "a \\ \"b' #c", "\u202egnp.exe", "=1+1"])("a hostile value comes back as it is: %s", (value) => {
    const { options, problems } = optionsOf(withOption("#!/bin/sh\n", "comment", value));
    expect([valueOf(options, "comment"), problems]).toEqual([value, []]);
  });
  test("sizes are MiB", () => {
    expect(["4G", "512", "1T", "1k", "x"].map(memoryMb)).toEqual([4096, 512, 1048576, 1, null]);
  });
});

test("a request key has its time, and is another one each time", () => {
  const key = newRequestKey(0x0123456789ab);
  expect(key).toMatch(/^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(newRequestKey(1)).not.toBe(newRequestKey(1));
});

describe("a plan", () => {
  const item = (id: string, start_s: number, end_s: number, nodes = "n1", kind: "run" | "plan" | "reserved" = "run") => ({ kind, id, label: id, nodes, start_s, end_s });
  test("has a row for each node, and what shares a node is in lanes", () => {
    const rows = planRows(["n1", "n2", "n3"], [item("1", 0, 100, "n[1-2]"), item("2", 50, 200), item("3", 100, Infinity, "n1", "plan"), item("r", 0, 500, "n1", "reserved")], 10, 300);
    expect(rows.map((row) => [row.node, row.lanes, row.bars.map((bar) => `${bar.item.id}:${bar.lane}`)])).toEqual([
      ["n1", 2, ["r:0", "1:0", "2:1", "3:0"]], ["n2", 1, ["1:0"]], ["n3", 1, []],
    ]);
  });
  test("leaves out what is over, too late, or on unknown nodes", () => {
    expect(planRows(["n1"], [item("1", 0, 10), item("2", 300, 400), item("3", 0, 400, "x[1-9]")], 10, 300)[0]?.bars).toEqual([]);
  });
  test("never has more lanes than it can show", () => {
    const rows = planRows(["n1"], Array.from({ length: 50 }, (_, n) => item(String(n), 0, 100)), 0, 100);
    expect(rows[0]?.lanes).toBe(LANES_MAX);
  });
  test("of 1,000 nodes and 10,000 jobs is made at once", () => {
    const nodes = Array.from({ length: 1000 }, (_, n) => `n${n}`);
    const rows = planRows(nodes, Array.from({ length: 10_000 }, (_, n) => item(String(n), n % 90, (n % 90) + 10, `n[${n % 990}-${(n % 990) + 8}]`)), 0, 100);
    expect(rows.reduce((all, row) => all + row.bars.length, 0)).toBe(90_000);
  });
  test("is marked at whole steps", () => {
    const at = new Date(2026, 0, 5, 9, 40).getTime() / 1000;
    expect(marks(at, at + 86400, 12).map((one) => new Date(one * 1000).getHours())).toEqual([10, 12, 14, 16, 18, 20, 22, 0, 2, 4, 6, 8]);
  });
});

test("lists of nodes are expanded, up to a limit", () => {
  expect(expand("n[1-3,07],login1,r[1-2]n[01-02]", 99)).toEqual(["n1", "n2", "n3", "n07", "login1", "r1n01", "r1n02", "r2n01", "r2n02"]);
  expect(expand("n[1-1000000]", 1000)).toBeNull();
  expect(expand("", 9)).toEqual([]);
});

describe("a record of the audit log", () => {
  test("is a row", () => {
    const record = JSON.stringify({
      time: "2026-11-28T10:00:00Z", user: "ann", as: "root", auth: "token", from: "10.0.0.1", action: "modify account", objects: ["lab", "team"],
      before: { fairshare: 1, qos: ["a"] }, after: { fairshare: 2, qos: ["a", "b"] }, result: "done",
    });
    expect(auditRow({ id: 7, record })).toEqual({
      id: 7, at_us: Date.UTC(2026, 10, 28, 10) * 1000, user: "ann as root", action: "modify account", objects: "lab, team",
      changes: "fairshare=1->2 qos=a->a,b", result: "done", how: "token, 10.0.0.1",
    });
  });
  test("of something new or unreadable", () => {
    expect(auditRow({ id: 1, record: '{"after": {"b": 1, "a": null}}' }).changes).toBe("a= b=1");
    expect(auditRow({ id: 1, record: "no JSON" }).action).toBe("no JSON");
    expect(auditRow({ id: 1, record: "[1]" }).action).toBe("[1]");
  });
});

describe("charts", () => {
  test("an axis ends at a round number", () => {
    expect([0, 0.3, 2, 16, 100, 640, 900].map((one) => topOf(one, 10))).toEqual([1, 0.4, 2, 20, 100, 800, 1000]);
    expect([0, 1500, 2 ** 20, 130 * 2 ** 30].map((one) => topOf(one, 2))).toEqual([1024, 1536, 2 ** 20, 192 * 2 ** 30]);
    expect(METRICS["cpu_cores"]?.text(0.123)).toBe("0.12 cores");
  });
  test("a value between gaps is a point, since no line shows it", () => {
    expect(alone([1, null, 0.5, 2, null, null, 3])).toEqual([0, 6]);
    expect(alone([null, 0])).toEqual([1]);
    expect(alone([1, 2])).toEqual([]);
  });
  test("each value is in the middle of its time", () => {
    expect(timesOf({ startUs: 100e6, intervalS: 10 }, 3)).toEqual({ from: 100, to: 130, at: [105, 115, 125] });
    expect(timesOf({ startUs: 0, intervalS: 3600 }, 0)).toEqual({ from: 0, to: 0, at: [] });
  });
  test("ticks are the viewer's hours, and at midnight the day", () => {
    const at = (hour: number, second = 0): number => new Date(2026, 6, 5, hour, 0, second).getTime() / 1000;
    expect(tickText(at(0), 3600)).toBe(new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" }).format(new Date(2026, 6, 5)));
    expect(tickText(at(13), 3600)).toMatch(/^(13:00|01:00 PM)$/);
    expect(tickText(at(13, 20), 20)).toMatch(/^(13:00:20|01:00:20 PM)$/);
  });
});
