import { describe, expect, test } from "vitest";

import type { Assoc } from "../api/types";
import { FIELDS } from "./accountfields";
import { below, rightsOf } from "./accountrights";
import { checkName, editedOf, fieldIn, recordOf } from "./changefields";

const NONE = { set: false, infinite: true, number: 0 };
const amount = (number: number): Assoc["priority"] => ({ set: true, infinite: false, number });

function assoc(more: Partial<Assoc> = {}): Assoc {
  const jobs = { accruing: NONE, active: amount(4), per: { accruing: NONE, count: NONE, submitted: NONE, wall_clock: amount(1530) }, total: NONE };
  const tres = {
    group: { active: [], minutes: [] }, minutes: { per: { job: [] }, total: [] }, per: { job: [], node: [] },
    total: [{ type: "cpu", name: "", id: 1, count: 8 }, { type: "mem", name: "", id: 2, count: 65536 }, { type: "gres", name: "gpu:h200", id: 3, count: 2 }],
  };
  return {
    account: "lab", accounting: [], cluster: "c", comment: "", default: { qos: "normal" }, flags: [], id: 7, is_default: false, lineage: "/lab/",
    max: { jobs, per: { account: { wall_clock: NONE } }, tres }, min: { priority_threshold: NONE }, parent_account: "root", partition: "",
    priority: NONE, qos: ["normal", "long"], shares_raw: 1, user: "", ...more,
  };
}

function changed(typed: Record<string, string>): readonly string[] {
  return editedOf(FIELDS, assoc(), typed).changes.map((one) => `${one.field.keyword} ${one.before || "-"} ${one.after || "-"}`);
}

function wrong(typed: Record<string, string>): readonly string[] {
  return [...editedOf(FIELDS, assoc(), typed).wrong.keys()];
}

describe("settings of an account", () => {
  test("what is written otherwise and means the same is no change", () => {
    expect(changed({ wall: "1530", grptres: "mem=64G, gres/gpu:h200=2,cpu=8", qos: "Normal,long,normal", shares: "", running: " 4 ", submit: "-1", defqos: "NORMAL" })).toEqual([]);
    expect(changed({ wall: "1-1:30", grptres: "cpu=8,mem=65536M,gres/gpu:h200=2" })).toEqual([]);
  });
  test("times, amounts and lists in Slurm's units", () => {
    expect(changed({ wall: "2-00:00:00" })).toEqual(["MaxWallDurationPerJob 1-01:30:00 2-00:00:00"]);
    expect(changed({ wall: "unlimited" })).toEqual(["MaxWallDurationPerJob 1-01:30:00 -"]);
    expect(changed({ grptres: "cpu=9,mem=1T" })).toEqual(["GrpTRES cpu=8,gres/gpu:h200=2,mem=64G cpu=9,mem=1T"]);
    expect(changed({ minutes: "gres/gpu=60000" })).toEqual(["GrpTRESMins - gres/gpu=60000"]);
    expect(changed({ shares: "Parent", qos: "", defqos: "" })).toEqual(["Fairshare 1 parent", "QOS long,normal -", "DefaultQOS normal -"]);
  });
  test("what is wrong is said at its field", () => {
    expect(wrong({ running: "many", submit: "-5", wall: "tomorrow", grptres: "cpu", jobtres: "mem=5X", minutes: "cpu=1,cpu=2", qos: "a b", defqos: "$", shares: "1.5" }))
      .toEqual(["shares", "running", "submit", "wall", "grptres", "jobtres", "minutes", "qos", "defqos"]);
    expect(wrong({ running: "2147483648", wall: "99999999999", grptres: "cpu=9999999999999999" })).toEqual(["running", "wall", "grptres"]);
    expect(editedOf(FIELDS, assoc(), { wall: "tomorrow" }).wrong.get("wall")).toContain("1-00:00:00 for a day");
  });
  test("the request has what is changed, and no other member", () => {
    const { changes } = editedOf(FIELDS, assoc(), { running: "", wall: "60", grptres: "cpu=9", qos: "", defqos: "long", shares: "parent" });
    expect(recordOf({ account: "lab", user: "", partition: "" }, changes)).toEqual({
      account: "lab", user: "", partition: "", shares_raw: 2147483647, qos: ["-1"], default: { qos: "long" },
      max: {
        jobs: { active: NONE, per: { wall_clock: { set: true, infinite: false, number: 60 } } },
        tres: { total: [{ type: "cpu", name: "", count: 9 }, { type: "mem", name: "", count: -1 }, { type: "gres", name: "gpu:h200", count: -1 }]
          .sort((one, other) => order(one) - order(other)) },
      },
    });
  });
  test("refusals are of the field that they name", () => {
    const { changes } = editedOf(FIELDS, assoc(), { grptres: "cpu=9", minutes: "cpu=9", defqos: "nosuch" });
    expect(fieldIn("Access/permission denied: GrpTRESMins cpu=9 is beyond what account lab has: 5", changes)).toBe("minutes");
    expect(fieldIn("Invalid qos specification: nosuch", changes)).toBe("defqos");
    expect(fieldIn("MaxJobs=9 is beyond", changes)).toBe("");
  });
  test("names", () => {
    for (const name of ["lab", "_x", "a.b@c+d-e$"]) expect(() => checkName(name, "an account")).not.toThrow();
    for (const name of ["", "a b", "-x", "<b>", "ä", "x".repeat(129)]) expect(() => checkName(name, "an account")).toThrow("no name of an account");
  });
});

/** As they are sent: what stays or is new, then what goes, by name. */
function order(one: { type: string }): number {
  return ["cpu", "gres", "mem"].indexOf(one.type);
}

describe("what is offered", () => {
  const tree = [
    assoc({ id: 1, account: "root", parent_account: "" }), assoc({ id: 2 }), assoc({ id: 3, user: "ann", parent_account: "" }),
    assoc({ id: 4, account: "sub", parent_account: "lab" }), assoc({ id: 5, account: "sub", user: "bob", parent_account: "" }),
    assoc({ id: 6, account: "other" }),
  ];
  const offered = (manages: boolean, ...coordinates: string[]): string[] => {
    const may = rightsOf(tree, { manages, coordinates });
    return tree.map((one) => { const found = may(one); return `${found.settings ? "s" : ""}${found.add ? "a" : ""}${found.remove ? "r" : ""}`; });
  };
  test("to administrators all, but root's removal", () => expect(offered(true)).toEqual(["sa", "sar", "sr", "sar", "sr", "sar"]));
  test("to a coordinator what is below the account", () => expect(offered(false, "lab")).toEqual(["", "a", "sr", "sar", "sr", ""]));
  test("to others nothing", () => expect(offered(false)).toEqual(["", "", "", "", "", ""]));
  test("accounts in a circle end", () => {
    const circle = [assoc({ account: "a", parent_account: "b" }), assoc({ account: "b", parent_account: "a" })];
    expect(rightsOf(circle, { manages: false, coordinates: ["c"] })(circle[0] ?? assoc())).toEqual({ settings: false, add: false, remove: false });
    expect(below(circle, "a")).toEqual({ users: 0, accounts: 1 });
  });
  test("what goes with an account", () => expect(below(tree, "lab")).toEqual({ users: 2, accounts: 1 }));
});
