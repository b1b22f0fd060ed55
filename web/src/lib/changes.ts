/**
 * What the daemon's event stream says, and which questions of a page it concerns. An event does not say how an answer changes:
 * it says that the answer may have, and is to be asked for again. What no event concerns is asked again at long intervals.
 */

/** A change, as far as this needs it. Of what is gone only `kind`, `id` and `gone` are known. */
export interface Change {
  readonly kind: string;
  readonly gone: boolean;
  readonly nodes: string;
  readonly start_time: number;
  readonly attempt: number;
  readonly job_id: number;
  readonly array_job_id: number;
  readonly user_name: string;
}

/** What has happened since a page was asked last. null: anything may have. */
export type Changes = readonly Change[] | null;

type Concern = (change: Change, path: string, query: URLSearchParams) => boolean;

const never: Concern = () => false;
const ofJobs: Concern = (change) => change.kind === "job";
const ofNodesAlone: Concern = (change) => change.kind === "node";
const ofReservations: Concern = (change) => change.kind === "reservation";
/** What nodes do: a job that was never started uses none. */
const ofNodes: Concern = ({ kind, nodes, start_time, attempt }) => kind !== "job" || nodes !== "" || start_time > 0 || attempt > 0;

/** A list with one of these filters has no other jobs. */
const ofListedJobs: Concern = (change, path, query) => {
  const users = query.get("users");
  if (change.gone) return change.kind === "job";
  if (users !== null) return change.kind === "job" && users.split(",").includes(change.user_name);
  if (query.has("nodes")) return ofNodes(change, path, query);
  return change.kind === "job" || query.get("order") === "planned_start_at_us";
};

/** A job, or all tasks of its array. The parts of a heterogeneous job, `12+1`, are jobs of other numbers. */
const ofTheJob: Concern = (change, path) => {
  const id = /\/jobs?\/(\d+)(?:_\d+)?(?:\/|$)/.exec(path)?.[1];
  return change.kind === "job" && (id === undefined || [change.job_id, change.array_job_id].includes(Number(id)));
};

/** By path; the first one counts. */
const CONCERNS: readonly (readonly [RegExp, Concern])[] = [
  [/^\/slurm\/[^/]+\/node(s|\/.*)$/, ofNodes],
  [/^\/penstock\/v1\/gpus$/, ofNodes],
  [/^\/penstock\/v1\/gpus\/readings$/, never],
  [/^\/penstock\/v1\/nodes\/events$/, ofNodesAlone],
  [/^\/slurm\/[^/]+\/reservations$/, ofReservations],
  [/^\/slurm\/[^/]+\/(partitions|ping|diag|shares)$/, never],
  [/^\/slurmdb\/[^/]+\/(?!job\/)/, never],
  [/^\/penstock\/v1\/(config|budgets|templates|topology|utilization|usage)/, never],
  [/^\/penstock\/v1\/jobs(\/wide)?$/, ofListedJobs],
  [/^\/penstock\/v1\/jobs\/past$/, never],
  [/^\/penstock\/v1\/queue$/, ofJobs],
  [/^\/penstock\/v1\/jobs\/[^/]+\/script$/, never],
  [/^\/penstock\/v1\/jobs\/[^/]+\/story$/, ofTheJob],
  [/^\/slurmdb\/[^/]+\/job\//, ofTheJob],
];

/** Whether the answer of a path may be another one now; of a path that is not in the table it always may. */
export function concern(changes: Changes, address: string): boolean {
  if (changes === null) return true;
  const [path = "", query] = address.split("?");
  const found = CONCERNS.find(([pattern]) => pattern.test(path))?.[1];
  if (!found) return changes.length > 0;
  const asked = new URLSearchParams(query);
  return changes.some((one) => found(one, path, asked));
}

/**
 * Reads server-sent events as they arrive, in parts. `null` stands for an event that is no change: the stream begins, ends, or
 * has missed some.
 */
export class ChangeReader {
  private tail = "";
  private kind = "";

  read(text: string): (Change | null)[] {
    const lines = (this.tail + text).split("\n");
    this.tail = lines.pop() ?? "";
    const found: (Change | null)[] = [];
    for (const line of lines) {
      if (line.startsWith("event:")) this.kind = line.slice(6).trim();
      else if (line.startsWith("data:")) found.push(KINDS.includes(this.kind) ? parsed(line.slice(5)) : null);
    }
    return found;
  }
}

const KINDS: readonly string[] = ["job", "node", "gpu", "reservation"];

function parsed(text: string): Change | null {
  try {
    return JSON.parse(text) as Change;
  } catch {
    return null;
  }
}
