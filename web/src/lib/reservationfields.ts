import type { ReservationInfo } from "../api/types";
import { amountOf, type Field, isNone, tresList, usualTres, usualWall, wallOf, wallText, whole } from "./changefields";
import { words } from "./states";
import { fullTime } from "./units";

/** Settings of a reservation, as scontrol has them. */

const NODES_MAX = 16_000_000;

/** A reservation before it is made. */
export const NEW: ReservationInfo = {
  accounts: "", burst_buffer: "", core_count: 0, core_specializations: [], end_time: amountOf(""), features: "", flags: [], groups: "",
  licenses: "", max_start_delay: 0, name: "", node_count: 0, node_list: "", partition: "", purge_completed: { time: amountOf("") },
  start_time: amountOf(""), tres: "", users: "",
};

// ---- times

/** A time as an input of the browser has it, in the browser's zone: `2026-12-01T14:00`. */
export function inputTime(seconds: number): string {
  if (seconds <= 0) return "";
  const at = new Date(seconds * 1000);
  const two = (number: number): string => `${number}`.padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

function secondsOf(text: string): number {
  return Math.floor(new Date(text).getTime() / 1000);
}

function usualTime(text: string): string {
  if (text === "") return "";
  const seconds = secondsOf(text);
  if (!Number.isFinite(seconds)) throw new Error(`"${text}" is no time.`);
  return inputTime(seconds);
}

// ---- lists

/** Names with commas, each with `-` where it is one that may not. */
function usualList(text: string): string {
  return [...new Set(text.split(",").map((one) => one.trim()).filter(Boolean))].join(",");
}

/** An empty list changes nothing, so the names that go are named: `-ann`, and `+ann` of those that may not. */
function signedList(after: string, before: string): string[] {
  if (after) return after.split(",");
  return before.split(",").filter(Boolean).map((one) => (one.startsWith("-") ? `+${one.slice(1)}` : `-${one}`));
}

function usualText(text: string): string {
  return text;
}

function usualNodes(text: string): string {
  if (text === "") return "";
  const number = whole(text, NODES_MAX);
  if (number === null || number < 1) throw new Error(`"${text}" is no number of nodes: write a whole number from 1 on.`);
  return `${number}`;
}

function usualLength(text: string): string {
  const found = usualWall(text);
  if (found === wallText(0)) throw new Error("A reservation lasts a minute at least.");
  return found;
}

// ---- flags

const REPEATS = ["HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY"];

/** Flags that are set here, with what they do. */
export const FLAGS: readonly (readonly [string, string])[] = [
  ["MAINT", "Maintenance: may overlap others, and have nodes that are down"],
  ["IGNORE_JOBS", "Jobs may run on its nodes when it begins; they go on"],
  ["OVERLAP", "May overlap other reservations"],
  ["FLEX", "Its jobs may begin before it and end after it"],
  ["MAGNETIC", "Jobs that may use it do so unasked"],
  ["STATIC", "Keeps its nodes, also those that go down"],
  ["PURGE_COMP", "Ends when it was unused for 5 minutes"],
  ["USER_DELETE", "Its users may remove it"],
];
/** The controller has no request that takes these away. */
const STAYS = "OVERLAP";

function usualFlags(text: string): string {
  const on = text.split(",");
  return FLAGS.map((one) => one[0]).filter((one) => on.includes(one)).join(",");
}

/** The flags that are set, and `NO_` in front of those that are no longer. */
function flagList(after: string, before: string): string[] {
  const [on, was] = [after, before].map((one) => one.split(",").filter(Boolean)) as [string[], string[]];
  return [...on.filter((one) => !was.includes(one)), ...was.filter((one) => !on.includes(one)).map((one) => `NO_${one}`)];
}

// ---- the tables

const START: Field<ReservationInfo> = {
  id: "start", title: "Start", hint: "In your time zone", keyword: "StartTime", example: "", isTime: true, path: "start_time", usual: usualTime,
  text: (one) => inputTime(one.start_time.number), value: (after) => amountOf(`${secondsOf(after)}`), shown: (text) => fullTime(secondsOf(text) * 1e6),
};
const LENGTH: Field<ReservationInfo> = {
  id: "length", title: "Length", hint: "Duration", keyword: "Duration", also: ["endtime"], example: "a year", path: "duration", usual: usualLength,
  text: (one) => (one.end_time.number ? wallText(Math.round((one.end_time.number - one.start_time.number) / 60)) : ""), value: wallOf,
};
const REPEAT: Field<ReservationInfo> = {
  id: "repeat", title: "Repeated", hint: "At the same time", keyword: "Flags", example: "", path: "flags", usual: usualText, value: flagList,
  text: (one) => one.flags.find((flag) => REPEATS.includes(flag)) ?? "", choices: [["", "no"], ...REPEATS.map((one) => [one, words(one).toLowerCase()] as const)],
};
const NODES: Field<ReservationInfo> = {
  id: "nodes", title: "Nodes", hint: "By name", keyword: "Nodes", also: ["node"], example: "n[1-4], or ALL", path: "node_list", usual: usualList,
  text: (one) => (isByName(one) ? one.node_list : ""), value: (after) => [after],
};
const COUNT: Field<ReservationInfo> = {
  id: "count", title: "Number of nodes", hint: "Any, instead of a list", keyword: "NodeCnt", also: ["node", "count"], example: "how many", path: "node_count", usual: usualNodes,
  text: (one) => (isByName(one) || !one.node_count ? "" : `${one.node_count}`), value: amountOf,
};

function list(id: "users" | "accounts" | "groups" | "licenses", title: string, keyword: string, also: string, hint: string, example: string): Field<ReservationInfo> {
  return { id, title, keyword, also: [also], hint, example, path: id, usual: usualList, text: (one) => one[id], value: signedList };
}

function plain(id: "partition" | "features", title: string, keyword: string, also: string, hint: string, example: string): Field<ReservationInfo> {
  return { id, title, keyword, also: [also], hint, example, path: id, usual: usualText, text: (one) => one[id], value: (after) => after };
}

const USERS = list("users", "Users", "Users", "user", "Who may use it; -ann: all but ann", "ann,bob");
const ACCOUNTS = list("accounts", "Accounts", "Accounts", "account", "Whose jobs may use it", "physics");
const GROUPS = list("groups", "Groups", "Groups", "group", "Instead of users", "staff");
const LICENSES = list("licenses", "Licenses", "Licenses", "license", "Kept beside the nodes", "matlab:4");
const MARKS: Field<ReservationInfo> = {
  id: "flags", title: "Rules", keyword: "Flags", example: "", path: "flags", usual: usualFlags, text: (one) => usualFlags(one.flags.join(",")), value: flagList,
  several: FLAGS, shown: (text) => text.split(",").map(words).join(", ").toLowerCase(),
};

/** Of one that is made. */
export const NEW_FIELDS: readonly Field<ReservationInfo>[] = [
  {
    id: "name", title: "Name", hint: "Without one: an account and a number", keyword: "ReservationName", example: "the controller chooses", path: "name", usual: usualText,
    text: (one) => one.name, value: (after) => after,
  },
  START, LENGTH, REPEAT, NODES, COUNT,
  { id: "tres", title: "Or resources", hint: "On the fewest nodes", keyword: "TRES", example: "gres/gpu=4", path: "tres", usual: usualTres, text: () => "", value: tresList },
  plain("partition", "Of partition", "PartitionName", "partition", "Where nodes are chosen", "the default"),
  plain("features", "With features", "Features", "feature", "Of the nodes chosen", "a100&ib"),
  LICENSES, USERS, ACCOUNTS, GROUPS,
  { id: "comment", title: "Comment", hint: "What it is for", keyword: "Comment", example: "", path: "comment", usual: usualText, text: () => "", value: (after) => after },
  MARKS,
];

/** Of one that is there. Its answer does not say which resources were asked for, only which it has. */
export function fieldsOf(one: ReservationInfo): readonly Field<ReservationInfo>[] {
  const marks = { ...MARKS, several: FLAGS.filter(([name]) => name !== STAYS || !one.flags.includes(STAYS)) };
  const licenses = one.licenses ? [{ ...LICENSES, usual: usualLicenses }] : [LICENSES];
  return [START, LENGTH, REPEAT, NODES, COUNT, ...licenses, USERS, ACCOUNTS, one.groups ? { ...GROUPS, usual: usualGroups } : GROUPS, marks];
}

function usualLicenses(text: string): string {
  if (isNone(text)) throw new Error("Licenses cannot be taken away: write others, or make another reservation.");
  return usualList(text);
}

function usualGroups(text: string): string {
  if (isNone(text)) throw new Error("Groups cannot be taken away: write others, or the users who may use it.");
  return usualList(text);
}

function isByName(one: ReservationInfo): boolean {
  return one.flags.includes("SPEC_NODES") || one.flags.includes("ALL_NODES");
}
