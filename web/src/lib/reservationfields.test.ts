import { describe, expect, test } from "vitest";

import type { ReservationInfo } from "../api/types";
import { amountOf, editedOf, fieldIn, recordOf } from "./changefields";
import { fieldsOf, inputTime, NEW, NEW_FIELDS } from "./reservationfields";

const START_S = Math.floor(new Date("2031-03-01T14:00").getTime() / 1000);

function reservation(more: Partial<ReservationInfo> = {}): ReservationInfo {
  return {
    ...NEW, name: "course", start_time: amountOf(`${START_S}`), end_time: amountOf(`${START_S + 7200}`), node_list: "n[1-2]", node_count: 2,
    flags: ["DAILY", "SPEC_NODES", "FLEX"], users: "ann,bob", ...more,
  };
}

function request(typed: Record<string, string>, of: ReservationInfo = reservation()): Record<string, unknown> {
  return recordOf({ name: of.name }, editedOf(fieldsOf(of), of, typed).changes);
}

describe("settings of a reservation", () => {
  test("what is written otherwise and means the same is no change", () => {
    expect(request({ start: inputTime(START_S), length: "120", users: "ann, bob", nodes: "n[1-2]", repeat: "DAILY", flags: "FLEX", count: "" })).toEqual({ name: "course" });
  });
  test("flags that are no longer set are taken away, those of repetition too", () => {
    expect(request({ repeat: "WEEKLY", flags: "MAINT" })).toEqual({ name: "course", flags: ["WEEKLY", "NO_DAILY", "MAINT", "NO_FLEX"] });
    expect(fieldsOf(reservation({ flags: ["OVERLAP"] })).find((one) => one.id === "flags")?.several?.map((one) => one[0])).not.toContain("OVERLAP");
  });
  test("names of a list that is emptied are taken away one by one", () => {
    expect(request({ users: "" })).toEqual({ name: "course", users: ["-ann", "-bob"] });
    expect(request({ users: " " }, reservation({ users: "-ann" }))).toEqual({ name: "course", users: ["+ann"] });
    expect(request({ users: "cat" })).toEqual({ name: "course", users: ["cat"] });
  });
  test("times and counts", () => {
    expect(request({ length: "1-0", start: inputTime(START_S + 60), count: "3" })).toEqual({
      name: "course", duration: amountOf("1440"), start_time: amountOf(`${START_S + 60}`), node_count: amountOf("3"),
    });
    expect(request({ length: "" })).toEqual({ name: "course", duration: { set: false, infinite: true, number: 0 } });
  });
  test("nodes that the controller chose are no list of the user's", () => {
    const chosen = reservation({ flags: [] });
    const text = (id: string): string | undefined => fieldsOf(chosen).find((one) => one.id === id)?.text(chosen);
    expect([text("nodes"), text("count")]).toEqual(["", "2"]);
  });
  test("what is wrong is said at its field", () => {
    const { wrong } = editedOf(NEW_FIELDS, NEW, { start: "x", length: "0", count: "0", tres: "gpu" });
    expect([...wrong.keys()]).toEqual(["start", "length", "count", "tres"]);
  });
  test("refusals are of the field that they name first", () => {
    const { changes } = editedOf(NEW_FIELDS, NEW, { start: "2031-03-01T14:00", length: "1", nodes: "n9", users: "x" });
    expect(fieldIn("Nothing was changed. Invalid node name specified: n9", changes)).toBe("nodes");
    expect(fieldIn("Invalid time specified: EndTime is not after StartTime and now", changes)).toBe("length");
    expect(fieldIn("Invalid user id: x", changes)).toBe("users");
    expect(fieldIn("Requested reservation overlaps with another reservation", changes)).toBe("");
  });
});
