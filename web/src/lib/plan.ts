import { expand } from "./hostlist";

/**
 * The planner's forecast as bars: nodes by time. Pure. A bar is on one node; a job on several nodes has one on each. Bars that
 * share a node at a time are drawn below each other, in lanes.
 */

/** `was`, `moved`: where a job is, and where it would be with a change; `gone`: a node that would go; `comes`: a job that would come. */
export type BarKind = "run" | "plan" | "reserved" | "was" | "moved" | "gone" | "comes";

/** What is behind the bars of jobs, as high as the row. */
export function isGround(item: PlanItem): boolean {
  return item.kind === "reserved" || item.kind === "gone";
}

export interface PlanItem {
  readonly kind: BarKind;
  /** Of a job its id; else the reservation's name. */
  readonly id: string;
  readonly label: string;
  readonly nodes: string;
  readonly start_s: number;
  /** Infinity: it has no end. */
  readonly end_s: number;
}

export interface PlanBar {
  readonly item: PlanItem;
  readonly lane: number;
}

export interface PlanRow {
  readonly node: string;
  readonly lanes: number;
  readonly bars: readonly PlanBar[];
}

/** Nodes that one item may have: as many as a hostlist may name. */
const NODES_MAX = 65_536;
/** More jobs than this on a node at a time share the last lane. */
export const LANES_MAX = 6;
const KINDS: readonly BarKind[] = ["reserved", "gone", "run", "was", "comes", "moved", "plan"];

/** A row for each node, in the order of `nodes`, with what is there between two times. */
export function planRows(nodes: readonly string[], items: readonly PlanItem[], from_s: number, to_s: number): PlanRow[] {
  const byNode = new Map<string, PlanItem[]>(nodes.map((node) => [node, []]));
  for (const item of items) {
    if (item.end_s <= from_s || item.start_s >= to_s) continue;
    for (const node of expand(item.nodes, NODES_MAX) ?? []) byNode.get(node)?.push(item);
  }
  return [...byNode].map(([node, found]) => rowOf(node, found));
}

function rowOf(node: string, items: readonly PlanItem[]): PlanRow {
  const order = [...items].sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || a.start_s - b.start_s || (a.id < b.id ? -1 : 1));
  const ends: number[] = [];
  const bars = order.map((item) => {
    if (isGround(item)) return { item, lane: 0 };
    const free = ends.findIndex((end) => end <= item.start_s);
    const lane = free >= 0 ? free : Math.min(ends.length, LANES_MAX - 1);
    ends[lane] = Math.max(ends[lane] ?? 0, item.end_s);
    return { item, lane };
  });
  return { node, lanes: Math.max(1, ends.length), bars };
}

/** Seconds between two marks of the axis: the smallest of these with at most `most` marks. */
const STEPS_S = [300, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400];

/** The times that are marked, at whole steps of the viewer's day. */
export function marks(from_s: number, to_s: number, most: number): number[] {
  const step = STEPS_S.find((one) => (to_s - from_s) / one <= most) ?? 7 * 86400;
  const day = new Date(from_s * 1000);
  const midnight = new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime() / 1000;
  const found: number[] = [];
  for (let at = midnight + Math.ceil((from_s - midnight) / step) * step; at < to_s; at += step) found.push(at);
  return found;
}
