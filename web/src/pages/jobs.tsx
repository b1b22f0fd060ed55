import type { JSX } from "preact";

import { OWN, session } from "../api/client";
import type { JobsAnswer } from "../api/types";
import { elapsed, isRunning, isWaiting, type JobRow } from "../lib/model";
import { link, route, setQuery } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { duration, fullTime, gpusOf, limit } from "../lib/units";
import { JobState, Time } from "../parts/bits";
import { type OrderedColumn, WindowTable } from "../parts/windowtable";

function time(id: string, title: string, order: string, at: (job: JobRow) => number, isHidden = false): OrderedColumn<JobRow> {
  return { id, title, order, value: at, text: (job) => fullTime(at(job)), show: (job) => <Time us={at(job)} />, width: 8, isHidden };
}

export const COLUMNS: readonly OrderedColumn<JobRow>[] = [
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
  { id: "limit", title: "Limit", order: "time_limit_s", value: (job) => (job.time_limit_s < 0 ? Infinity : job.time_limit_s), text: (job) => limit(job.time_limit_s), width: 7, isNumber: true },
  time("submit", "Submitted", "submit_at_us", (job) => job.submit_at_us),
  time("start", "Started", "start_at_us", (job) => job.start_at_us, true),
  time("planned", "Planned start", "planned_start_at_us", (job) => job.planned_start_at_us, true),
  time("end", "Ended", "end_at_us", (job) => (isRunning(job) ? 0 : job.end_at_us), true),
  { id: "nodes", title: "Nodes", order: "node_list", value: (job) => job.node_list, width: 10 },
  { id: "account", title: "Account", order: "account", value: (job) => job.account, width: 8, isHidden: true },
  { id: "qos", title: "QOS", order: "qos", value: (job) => job.qos, width: 6, isHidden: true },
  { id: "priority", title: "Priority", order: "priority", value: (job) => job.priority, width: 8, isNumber: true, isHidden: true },
];
const STATES = ["RUNNING", "PENDING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"];

export function Jobs(): JSX.Element {
  const { query } = useStore(route);
  const me = useStore(session)?.user ?? "";
  const [state, user, partition] = [query.get("state") ?? "", query.get("user") ?? "", query.get("partition") ?? ""];
  return (
    <>
      <h1>Jobs</h1>
      <WindowTable<JobRow, JobsAnswer>
        label="Jobs" noun="job" path={`${OWN}/jobs`} filter={{ states: state, users: user, partitions: partition }} rowsOf={rowsOf}
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

function rowsOf(answer: JobsAnswer): readonly JobRow[] {
  return answer.jobs;
}

function Filter({ name, value }: { name: string; value: string }): JSX.Element {
  return (
    <button type="button" class="on" onClick={() => setQuery({ [name]: "" })} aria-label={`Remove the filter ${name} ${value}`}>
      {`${name} ${value}`} <span aria-hidden="true">×</span>
    </button>
  );
}
