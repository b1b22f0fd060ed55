import type { SwitchInfo } from "../api/types";
import { figure, partOf, partText, POWER, type Scale, UTILIZATION } from "./gpufigures";
import { expand } from "./hostlist";
import type { NodeGpu, NodeRow } from "./model";
import { type GpuUse, words } from "./states";

/** What the colours of the picture of all GPUs mean, and how its nodes are grouped. */

export type Colouring = "use" | "health" | "job" | "utilization" | "power";
export const COLOURINGS: Readonly<Record<Colouring, string>> = { use: "Use", health: "Health", job: "Job", utilization: "Utilisation", power: "Power" };
const SCALES: Readonly<Partial<Record<Colouring, Scale>>> = { utilization: UTILIZATION, power: POWER };

/** A colour of the style sheet with its meaning; a crossed or hollow one is told from the others without it. */
export interface Paint {
  readonly colour: string;
  readonly text: string;
  readonly isCrossed?: boolean;
  readonly isHollow?: boolean;
}

export const USES: Readonly<Record<GpuUse, string>> = { busy: "allocated", unused: "left idle", free: "idle", closed: "closed", broken: "broken" };
const HEALTH: ReadonlyMap<string, Paint> = new Map([
  ["HEALTHY", { colour: "--gpu-free", text: "healthy" }],
  ["SUSPECT", { colour: "--gpu-closed", text: "suspect" }],
  ["DRAINED", { colour: "--off", text: "drained" }],
  ["FAILED", { colour: "--gpu-broken", text: "failed", isCrossed: true }],
  ["UNRESPONSIVE", { colour: "--gpu-broken", text: "failed", isCrossed: true }],
]);
const NO_JOB: Paint = { colour: "--raised", text: "no job" };
const NOT_KNOWN: Paint = { colour: "--raised", text: "not known" };
/** Colours of jobs: neighbours in number have different ones. */
const JOB_COLOURS = 8;
/** Of one switch. */
const NODES_MAX = 100_000;

function usePaint(use: GpuUse): Paint {
  return { colour: `--gpu-${use}`, text: USES[use], isCrossed: use === "broken", isHollow: use === "unused" };
}

function scalePaint(scale: Scale, part: number): Paint {
  return { colour: `--q${part}`, text: partText(scale, part) };
}

export function paintOf(colouring: Colouring, { gpu, use, reading }: NodeGpu): Paint {
  const scale = SCALES[colouring];
  if (scale) {
    const value = reading && scale.value(reading);
    return value === null ? NOT_KNOWN : scalePaint(scale, partOf(scale, value));
  }
  if (colouring === "use") return usePaint(use);
  if (colouring === "health") return HEALTH.get(gpu.state) ?? { colour: "--gpu-closed", text: words(gpu.state).toLowerCase() };
  const [job] = gpu.job_ids;
  return job === undefined ? NO_JOB : { colour: `--s${job % JOB_COLOURS}`, text: `job ${job}` };
}

/** The figure that a GPU is coloured by: `312 W`; "" = it is coloured by none, or by one that is not known. */
export function figureOf(colouring: Colouring, { reading }: NodeGpu): string {
  const scale = SCALES[colouring];
  return scale && reading ? figure(scale.value(reading), scale.unit) : "";
}

/** What a legend names: jobs are too many for it. */
export function legendOf(colouring: Colouring): readonly Paint[] {
  const scale = SCALES[colouring];
  if (scale) return [...[...scale.edges, 0].map((_, part) => scalePaint(scale, part)), NOT_KNOWN];
  if (colouring === "use") return (Object.keys(USES) as GpuUse[]).map(usePaint);
  if (colouring === "health") return [...new Map([...HEALTH.values()].map((one) => [one.text, one])).values()];
  return [NO_JOB];
}

export interface NodeGroup {
  readonly name: string;
  readonly rows: readonly NodeRow[];
}

/** Nodes by the lowest switch or block that they are under; those under none come last. Without switches one group. */
export function groupsOf(rows: readonly NodeRow[], switches: readonly SwitchInfo[]): readonly NodeGroup[] {
  const leaves = switches.filter((one) => one.level === 0);
  if (!leaves.length) return [{ name: "", rows }];
  const place = new Map(leaves.flatMap((one) => (expand(one.nodes, NODES_MAX) ?? []).map((node) => [node, one.name] as const)));
  const found = new Map<string, NodeRow[]>(leaves.map((one) => [one.name, []]));
  const rest: NodeRow[] = [];
  for (const row of rows) (found.get(place.get(row.node.name) ?? "") ?? rest).push(row);
  const groups = [...found].map(([name, list]) => ({ name, rows: list })).filter((one) => one.rows.length);
  return rest.length ? [...groups, { name: "Under no switch", rows: rest }] : groups;
}
