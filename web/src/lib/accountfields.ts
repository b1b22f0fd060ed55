import type { Assoc } from "../api/types";
import { amountOf, amountsText, amountText, type Field, tresList, usualCount, usualName, usualNames, usualTres, usualWall, wallOf, wallText, whole } from "./changefields";

/** Settings of an account, or of a user in one. */

const PARENT_SHARES = 2 ** 31 - 1;

function tresOf(of: (max: Assoc["max"]["tres"]) => readonly { type: string; name: string; count: number }[]): (assoc: Assoc) => string {
  return (assoc) => amountsText(new Map(of(assoc.max.tres).map((one) => [one.name ? `${one.type}/${one.name}` : one.type, one.count])));
}

function usualShares(text: string): string {
  if (text === "" || text === "-1") return "1";
  if (text.toLowerCase() === "parent") return "parent";
  const number = whole(text, PARENT_SHARES - 1);
  if (number === null) throw new Error(`"${text}" are no shares: write a whole number, or parent for those of the account.`);
  return `${number}`;
}

const TRES_EXAMPLE = "cpu=100,mem=1T,gres/gpu=8";

export const FIELDS: readonly Field<Assoc>[] = [
  {
    id: "shares", title: "Shares", keyword: "Fairshare", example: "10, or parent", path: "shares_raw", usual: usualShares,
    text: (one) => (one.shares_raw === PARENT_SHARES ? "parent" : `${one.shares_raw}`),
    value: (after) => (after === "parent" ? PARENT_SHARES : Number(after)),
  },
  {
    id: "running", title: "Running jobs", keyword: "MaxJobs", example: "no limit", path: "max.jobs.active", usual: usualCount,
    text: (one) => amountText(one.max.jobs.active), value: amountOf,
  },
  {
    id: "submit", title: "Jobs in the queue", keyword: "MaxSubmitJobs", example: "no limit", path: "max.jobs.total", usual: usualCount,
    text: (one) => amountText(one.max.jobs.total), value: amountOf,
  },
  {
    id: "wall", title: "Longest job", keyword: "MaxWallDurationPerJob", example: "1-00:00:00", path: "max.jobs.per.wall_clock", usual: usualWall,
    text: (one) => { const found = amountText(one.max.jobs.per.wall_clock); return found && wallText(Number(found)); }, value: wallOf,
  },
  { id: "grptres", title: "Most in all", keyword: "GrpTRES", example: TRES_EXAMPLE, path: "max.tres.total", usual: usualTres, text: tresOf((max) => max.total), value: tresList },
  { id: "jobtres", title: "Most per job", keyword: "MaxTRESPerJob", example: TRES_EXAMPLE, path: "max.tres.per.job", usual: usualTres, text: tresOf((max) => max.per.job), value: tresList },
  {
    id: "minutes", title: "Most TRES minutes", keyword: "GrpTRESMins", example: "gres/gpu=60000", path: "max.tres.group.minutes", usual: usualTres,
    text: tresOf((max) => max.group.minutes), value: tresList,
  },
  {
    id: "qos", title: "QOS", keyword: "QOS", example: "normal,long", path: "qos", usual: usualNames,
    text: (one) => [...one.qos].sort().join(","), value: (after) => (after ? after.split(",") : ["-1"]),
  },
  { id: "defqos", title: "Default QOS", keyword: "DefaultQOS", also: ["qos"], example: "normal", path: "default.qos", usual: usualName, text: (one) => one.default.qos, value: (after) => after || "-1" },
];
