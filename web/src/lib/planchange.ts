import type { MovedJob, PlanChangeReply } from "../api/types";
import type { PlanItem } from "./plan";
import type { Tone } from "./states";
import { count, does, duration } from "./units";

/** What a change does to the plan, as bars and in words. Pure. */

export const CHANGE_WORDS: ReadonlyMap<string, readonly [string, Tone]> = new Map([
  ["never", ["Never starts", "bad"]], ["ends", ["Ends", "bad"]], ["requeued", ["Requeued", "wait"]],
  ["later", ["Later", "wait"]], ["sooner", ["Sooner", "good"]], ["elsewhere", ["Other nodes", "off"]],
]);

/** Seconds by which the start moves; null: one of the two starts is not known, or the job ran. */
export function delay(one: MovedJob): number | null {
  const isKnown = one.before_at_us > 0 && one.after_at_us > 0 && !["ends", "requeued"].includes(one.change);
  return isKnown ? (one.after_at_us - one.before_at_us) / 1e6 : null;
}

/** `+20 min`, `−3 h`, ``. */
export function delayText(one: MovedJob): string {
  const seconds = delay(one);
  if (!seconds) return "";
  return `${seconds > 0 ? "+" : "−"}${duration(Math.abs(seconds))}`;
}

function bar(kind: PlanItem["kind"], one: MovedJob, at_us: number, nodes: string): PlanItem[] {
  if (!at_us || !nodes) return [];
  const start_s = at_us / 1e6;
  const end_s = one.time_limit_s > 0 ? start_s + one.time_limit_s : Infinity;
  return [{ kind, id: one.shown_id, label: `${one.shown_id} ${one.name} (${one.user_name})`, nodes, start_s, end_s }];
}

/** The job that comes: when and where. */
export interface Arrival {
  readonly start_at_us: number;
  readonly node_list: string;
  readonly limit_s: number;
}

/** The bars with the change: of each job that moves where it was and where it would be; nodes that go; the job that comes. */
export function changedItems(
  items: readonly PlanItem[], change: PlanChangeReply, gone: string, arrival: Arrival | null,
): PlanItem[] {
  const moved = new Set(change.jobs.map((one) => one.shown_id));
  const now_s = change.now_us / 1e6;
  const kept = items.filter((one) => one.kind === "reserved" || !moved.has(one.id));
  const lost: PlanItem[] = gone
    ? [{ kind: "gone", id: gone, label: `${gone} would be gone`, nodes: gone, start_s: now_s, end_s: Infinity }] : [];
  const comes: PlanItem[] = arrival && arrival.start_at_us > 0 && arrival.node_list
    ? [{
      kind: "comes", id: "+", label: "The job that comes", nodes: arrival.node_list, start_s: arrival.start_at_us / 1e6,
      end_s: arrival.limit_s > 0 ? arrival.start_at_us / 1e6 + arrival.limit_s : Infinity,
    }] : [];
  return [
    ...lost, ...kept, ...comes,
    ...change.jobs.flatMap((one) => [
      ...bar("was", one, one.before_at_us, one.before_node_list), ...bar("moved", one, one.after_at_us, one.after_node_list),
    ]),
  ];
}

/** `2 jobs never start, 1 job is requeued, 3 jobs start later`; "": nothing moves. */
export function summary(change: PlanChangeReply): string {
  const of = (word: string): number => change.jobs.filter((one) => one.change === word).length;
  const parts: readonly [string, string, string][] = [
    ["never", "job would never start", "jobs would never start"], ["ends", "running job would end", "running jobs would end"],
    ["requeued", "running job would be requeued", "running jobs would be requeued"],
    ["later", "job would start later", "jobs would start later"], ["sooner", "job would start sooner", "jobs would start sooner"],
    ["elsewhere", "job would start on other nodes", "jobs would start on other nodes"],
  ];
  return parts.filter(([word]) => of(word)).map(([word, one, several]) => does(of(word), one, several)).join(", ");
}

/** What the list leaves out. */
export function leftOut(change: PlanChangeReply): string[] {
  return [
    change.more ? `${count(change.more, "more job")} would move, too.` : "",
    change.unseen ? `${does(change.unseen, "job of another user, which you may not see, moves", "jobs of other users, which you may not see, move")}, too.` : "",
    change.not_asked ? `${count(change.not_asked, "more running job")} would be requeued; ${change.not_asked === 1 ? "it is" : "they are"} not planned again here.` : "",
  ].filter(Boolean);
}
