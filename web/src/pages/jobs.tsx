import type { JSX } from "preact";

import { OWN, session } from "../api/client";
import type { WideJobsAnswer } from "../api/types";
import { elapsed, isRunning, isWaiting, type JobRow } from "../lib/model";
import { link, route, setQuery } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { duration, fullTime, gpusOf, limit, memory } from "../lib/units";
import { JobState, Time } from "../parts/bits";
import { type OrderedColumn, WindowTable } from "../parts/windowtable";
import { LIVE } from "./jobslive";

function time(id: string, title: string, order: string, at: (job: JobRow) => number, isHidden = false): OrderedColumn<JobRow> {
  return { id, title, order, value: at, text: (job) => fullTime(at(job)), show: (job) => <Time us={at(job)} />, width: 8, isHidden };
}

/** Members of a wide row are absent in a short one. */
type Row = JobRow & Partial<WideJobsAnswer["jobs"][number]>;

/** A column that only wide rows have. */
function more(id: string, title: string, of: (job: Row) => string | number | undefined, width: number, isNumber = false): OrderedColumn<Row> {
  return { id, title, order: "", value: (job) => of(job) ?? "", width, isNumber, isHidden: true, isUnordered: true };
}

const MORE: readonly OrderedColumn<Row>[] = [
  more("group", "Group", (job) => job.group_name, 7),
  more("tasks", "Tasks", (job) => job.tasks, 5, true),
  more("memory", "Memory asked", (job) => (job.memory_mb ? memory(job.memory_mb) : ""), 8, true),
  more("tres", "Resources", (job) => job.tres, 16),
  more("asked", "Resources asked", (job) => job.tres_requested, 16),
  more("features", "Features", (job) => job.features, 9),
  more("reservation", "Reservation", (job) => job.reservation, 8),
  more("licenses", "Licenses", (job) => job.licenses, 8),
  more("dependency", "Dependency", (job) => job.dependency, 12),
  more("detail", "Reason in words", (job) => job.reason_detail, 20),
  more("plannednodes", "Planned nodes", (job) => job.planned_node_list, 9),
  more("eligible", "Eligible", (job) => (job.eligible_at_us ? fullTime(job.eligible_at_us) : ""), 12),
  more("exit", "Exit code", (job) => (job.exit_code === undefined ? "" : `${job.exit_code}:${job.exit_signal ?? 0}`), 6),
  more("derived", "Highest exit code of steps", (job) => job.derived_exit_code, 12, true),
  more("attempt", "Restarts", (job) => job.attempt, 6, true),
  more("suspended", "Suspended", (job) => (job.suspended_us ? duration(job.suspended_us / 1e6) : ""), 7, true),
  more("nice", "Nice", (job) => job.nice, 5, true),
  more("required", "Nodes required", (job) => job.nodes_required, 9),
  more("excluded", "Nodes excluded", (job) => job.nodes_excluded, 9),
  more("batchnode", "Node of the script", (job) => job.batch_node, 9),
  more("wckey", "Wckey", (job) => job.wckey, 7),
  more("comment", "Comment", (job) => job.comment, 12),
  more("admincomment", "Comment of administrators", (job) => job.admin_comment, 12),
  more("command", "Command", (job) => job.command, 16),
  more("workdir", "Working directory", (job) => job.work_dir, 16),
  more("stdout", "Output", (job) => job.std_out, 16),
  more("stderr", "Errors", (job) => job.std_err, 16),
  more("submithost", "Submitted at", (job) => job.submit_host, 8),
];
const ONLY_WIDE: ReadonlySet<string> = new Set(MORE.map((one) => one.id));

export const COLUMNS: readonly OrderedColumn<Row>[] = [
  {
    id: "id", title: "Job", order: "job_id", value: (job) => job.job_id, text: (job) => job.shown_id, width: 6.5,
    show: (job) => <a href={link(["jobs", job.shown_id])}>{job.shown_id}</a>,
  },
  { id: "state", title: "State", order: "state", value: (job) => job.state, show: (job) => <JobState state={job.state} />, width: 8.5 },
  { id: "name", title: "Name", order: "name", value: (job) => job.name, width: 14 },
  { id: "user", title: "User", order: "user_name", value: (job) => job.user_name, width: 7 },
  { id: "reason", title: "Reason", order: "reason", value: (job) => (isWaiting(job) ? job.reason : ""), width: 10 },
  { id: "partition", title: "Partition", order: "partition", value: (job) => job.partition, width: 7 },
  { id: "gpus", title: "GPUs", order: "gpus", value: (job) => gpusOf(job.tres), width: 5, isNumber: true },
  { id: "cpus", title: "CPUs", order: "cpus", value: (job) => job.cpus, width: 5, isNumber: true },
  { id: "elapsed", title: "Elapsed", order: "elapsed", value: (job) => Math.round(elapsed(job, Date.now() * 1000)), text: (job) => (job.start_at_us ? duration(elapsed(job, Date.now() * 1000)) : ""), width: 7.5, isNumber: true },
  { id: "limit", title: "Limit", order: "time_limit_s", value: (job) => (job.time_limit_s < 0 ? Infinity : job.time_limit_s), text: (job) => limit(job.time_limit_s), width: 8, isNumber: true },
  time("submit", "Submitted", "submit_at_us", (job) => job.submit_at_us),
  time("start", "Started", "start_at_us", (job) => job.start_at_us, true),
  time("planned", "Planned start", "planned_start_at_us", (job) => job.planned_start_at_us, true),
  time("end", "Ended", "end_at_us", (job) => (isRunning(job) ? 0 : job.end_at_us), true),
  { id: "nodes", title: "Nodes", order: "node_list", value: (job) => job.node_list, width: 10 },
  { id: "account", title: "Account", order: "account", value: (job) => job.account, width: 8, isHidden: true },
  { id: "qos", title: "QOS", order: "qos", value: (job) => job.qos, width: 6, isHidden: true },
  { id: "priority", title: "Priority", order: "priority", value: (job) => job.priority, width: 8, isNumber: true, isHidden: true },
  ...LIVE,
  ...MORE,
];
export const STATES = ["RUNNING", "PENDING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"];

export function Jobs(): JSX.Element {
  const { query } = useStore(route);
  const me = useStore(session)?.user ?? "";
  const [state, user, partition] = [query.get("state") ?? "", query.get("user") ?? "", query.get("partition") ?? ""];
  const isWide = (query.get("cols") ?? "").split(",").some((one) => ONLY_WIDE.has(one));
  return (
    <>
      <JobsHead isPast={false} />
      <WindowTable<Row, RowsAnswer>
        label="Jobs" noun="job" path={`${OWN}/jobs${isWide ? "/wide" : ""}`} filter={{ states: state, users: user, partitions: partition }} rowsOf={rowsOf}
        columns={COLUMNS} query={query} order="-id" rowKey={(job) => job.shown_id}
        open={(job) => link(["jobs", job.shown_id])}
        empty={query.size ? "No job passes these filters." : "There are no jobs."}
        tools={
          <>
            <select aria-label="State" value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
              <option value="">All states</option>
              {STATES.map((one) => <option key={one} value={one}>{words(one)}</option>)}
            </select>
            <button type="button" class={user === me ? "on" : ""} aria-pressed={user === me} onClick={() => setQuery({ user: user === me ? "" : me })}>
              My jobs
            </button>
            {user && user !== me && <Filter name="user" value={user} />}
            {partition && <Filter name="partition" value={partition} />}
          </>
        }
      />
    </>
  );
}

/** The title, and the way to the other list. */
export function JobsHead({ isPast }: { isPast: boolean }): JSX.Element {
  const here = (at: boolean): "page" | undefined => (at ? "page" : undefined);
  return (
    <header class="page">
      <h1>{isPast ? "Past jobs" : "Jobs"}</h1>
      <span class="grow" />
      <nav class="buttons" aria-label="Lists of jobs">
        <a class="button" href={link(["jobs"])} aria-current={here(!isPast)}>In the queue</a>
        <a class="button" href={link(["past"])} aria-current={here(isPast)}>Past</a>
      </nav>
    </header>
  );
}

interface RowsAnswer {
  readonly jobs: readonly Row[];
  readonly total: number | null;
}

function rowsOf(answer: RowsAnswer): readonly Row[] {
  return answer.jobs;
}

function Filter({ name, value }: { name: string; value: string }): JSX.Element {
  return (
    <button type="button" class="on" onClick={() => setQuery({ [name]: "" })} aria-label={`Remove the filter ${name} ${value}`}>
      {`${name} ${value}`} <span aria-hidden="true">×</span>
    </button>
  );
}
