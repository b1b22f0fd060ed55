import type { Qos } from "../api/types";
import { amountOf, amountsText, amountText, checkName, type Field, tresList, usualCount, usualName, usualTres, usualWall, wallOf, wallText } from "./changefields";

/** Settings of a QOS, as sacctmgr has them. */

type Max = Qos["limits"]["max"];
type TresList = Max["tres"]["total"];

const TRES_EXAMPLE = "cpu=100,mem=1T,gres/gpu=8";
const NONE = amountOf("");
const NO_TRES = { minutes: { per: { account: [], job: [], qos: [], user: [] }, total: [] }, per: { account: [], job: [], node: [], user: [] }, total: [] };
/** A QOS before it is made. */
export const NEW: Qos = {
  description: "", flags: [], id: 0, name: "", preempt: { exempt_time: NONE, list: [], mode: [] }, priority: NONE, usage_factor: NONE, usage_threshold: NONE,
  limits: {
    factor: NONE, grace_time: 0, min: { priority_threshold: NONE, tres: { per: { job: [] } } },
    max: {
      accruing: { per: { account: NONE, user: NONE } }, active_jobs: { accruing: NONE, count: NONE }, tres: NO_TRES, wall_clock: { per: { job: NONE, qos: NONE } },
      jobs: { active_jobs: { per: { account: NONE, user: NONE } }, count: NONE, per: { account: NONE, user: NONE } },
    },
  },
};

function tres(id: string, title: string, keyword: string, path: string, of: (max: Max["tres"]) => TresList, example = TRES_EXAMPLE): Field<Qos> {
  const text = (one: Qos): string => amountsText(new Map(of(one.limits.max.tres).map((item) => [item.name ? `${item.type}/${item.name}` : item.type, item.count])));
  return { id, title, keyword, example, path: `limits.max.tres.${path}`, usual: usualTres, text, value: tresList };
}

function jobs(id: string, title: string, keyword: string, path: string, of: (max: Max) => Max["jobs"]["count"]): Field<Qos> {
  return { id, title, keyword, example: "no limit", path: `limits.max.${path}`, usual: usualCount, text: (one) => amountText(of(one.limits.max)), value: amountOf };
}

function usualPriority(text: string): string {
  return usualCount(text) || "0";
}

/** Without one it is as it was made. */
function usualFactor(text: string): string {
  if (text !== "" && !/^\d{1,9}(\.\d{1,6})?$/.test(text)) throw new Error(`"${text}" is no factor: write a number from 0 on, as 0.5.`);
  return text && `${Number(text)}`;
}

const SETTINGS: readonly Field<Qos>[] = [
  { id: "priority", title: "Priority", keyword: "Priority", example: "0", path: "priority", usual: usualPriority, text: (one) => amountText(one.priority), value: amountOf },
  { id: "factor", title: "Usage factor", keyword: "UsageFactor", example: "1", path: "usage_factor", usual: usualFactor, text: (one) => amountText(one.usage_factor), value: amountOf },
  {
    id: "wall", title: "Longest job", keyword: "MaxWallDurationPerJob", example: "1-00:00:00", path: "limits.max.wall_clock.per.job", usual: usualWall, value: wallOf,
    text: (one) => { const found = amountText(one.limits.max.wall_clock.per.job); return found && wallText(Number(found)); },
  },
  jobs("running", "Jobs running", "GrpJobs", "active_jobs.count", (max) => max.active_jobs.count),
  jobs("userjobs", "Running per user", "MaxJobsPerUser", "jobs.active_jobs.per.user", (max) => max.jobs.active_jobs.per.user),
  jobs("submits", "In the queue per user", "MaxSubmitJobsPerUser", "jobs.per.user", (max) => max.jobs.per.user),
  tres("grptres", "Most in all", "GrpTRES", "total", (max) => max.total),
  tres("jobtres", "Most per job", "MaxTRESPerJob", "per.job", (max) => max.per.job),
  tres("usertres", "Most per user", "MaxTRESPerUser", "per.user", (max) => max.per.user),
  tres("accounttres", "Most per account", "MaxTRESPerAccount", "per.account", (max) => max.per.account),
  tres("nodetres", "Most per node", "MaxTRESPerNode", "per.node", (max) => max.per.node),
  tres("minutes", "Most TRES minutes", "GrpTRESMins", "minutes.total", (max) => max.minutes.total, "gres/gpu=60000"),
];

function description(usual: (text: string) => string): Field<Qos> {
  return { id: "description", title: "Description", hint: "What it is for", keyword: "Description", example: "", path: "description", usual, text: (one) => one.description, value: (after) => after };
}

export const NEW_FIELDS: readonly Field<Qos>[] = [
  {
    id: "name", title: "Name", hint: "In lower case", keyword: "Name", example: "long", path: "name", text: (one) => one.name, value: (after) => after,
    usual: (text) => { if (text) checkName(text, "QOS"); return usualName(text); },
  },
  description((text) => text), ...SETTINGS,
];

/** Of one that is there. */
export function fieldsOf(one: Qos): readonly Field<Qos>[] {
  const kept = (text: string): string => {
    if (one.description && !text) throw new Error("A description cannot be taken away: write another one.");
    return text;
  };
  return [description(kept), ...SETTINGS];
}
