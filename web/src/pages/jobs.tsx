import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { OWN, session } from "../api/client";
import { useAnswer } from "../api/live";
import type { JobsAnswer } from "../api/types";
import { elapsed, isRunning, isWaiting, type JobRow } from "../lib/model";
import { link, route, setQuery } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { duration, fullTime, gpusOf, limit } from "../lib/units";
import { JobState, Pending, Time } from "../parts/bits";
import { type Column, Table } from "../parts/table";

function time(id: string, title: string, at: (job: JobRow) => number, isHidden = false): Column<JobRow> {
  return { id, title, value: at, text: (job) => fullTime(at(job)), show: (job) => <Time us={at(job)} />, width: 8, isHidden };
}

export const COLUMNS: readonly Column<JobRow>[] = [
  {
    id: "id", title: "Job", value: (job) => job.job_id, text: (job) => job.shown_id, width: 6.5,
    show: (job) => <a href={link(["jobs", job.shown_id])}>{job.shown_id}</a>,
  },
  { id: "state", title: "State", value: (job) => job.state, show: (job) => <JobState state={job.state} />, width: 8.5 },
  { id: "name", title: "Name", value: (job) => job.name, width: 14 },
  { id: "user", title: "User", value: (job) => job.user_name, width: 7 },
  { id: "reason", title: "Reason", value: (job) => (isWaiting(job) ? job.reason : ""), width: 10 },
  { id: "partition", title: "Partition", value: (job) => job.partition, width: 7 },
  { id: "gpus", title: "GPUs", value: (job) => gpusOf(job.tres), width: 5, isNumber: true },
  { id: "cpus", title: "CPUs", value: (job) => job.cpus, width: 5, isNumber: true },
  { id: "elapsed", title: "Elapsed", value: (job) => Math.round(elapsed(job, Date.now() * 1000)), text: (job) => (job.start_at_us ? duration(elapsed(job, Date.now() * 1000)) : ""), width: 7.5, isNumber: true },
  { id: "limit", title: "Limit", value: (job) => (job.time_limit_s < 0 ? Infinity : job.time_limit_s), text: (job) => limit(job.time_limit_s), width: 7, isNumber: true },
  time("submit", "Submitted", (job) => job.submit_at_us),
  time("start", "Started", (job) => job.start_at_us, true),
  time("planned", "Planned start", (job) => job.planned_start_at_us, true),
  time("end", "Ended", (job) => (isRunning(job) ? 0 : job.end_at_us), true),
  { id: "nodes", title: "Nodes", value: (job) => job.node_list, width: 10 },
  { id: "account", title: "Account", value: (job) => job.account, width: 8, isHidden: true },
  { id: "qos", title: "QOS", value: (job) => job.qos, width: 6, isHidden: true },
  { id: "priority", title: "Priority", value: (job) => job.priority, width: 8, isNumber: true, isHidden: true },
];
const STATES = ["RUNNING", "PENDING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"];

export function Jobs(): JSX.Element {
  const { query } = useStore(route);
  const me = useStore(session)?.user ?? "";
  const [state, user, partition] = [query.get("state") ?? "", query.get("user") ?? "", query.get("partition") ?? ""];
  // The daemon filters: what is not shown is not sent.
  const filter = new URLSearchParams(Object.entries({ states: state, users: user, partitions: partition }).filter((one) => one[1]));
  const jobs = useAnswer<JobsAnswer>(`${OWN}/jobs${filter.size ? `?${filter}` : ""}`);
  const rows = useMemo(() => jobs.data?.jobs ?? [], [jobs.data]);
  return (
    <>
      <h1>Jobs</h1>
      {jobs.data ? (
        <Table
          label="Jobs" rows={rows} columns={COLUMNS} query={query} order="-id" rowKey={(job) => job.shown_id}
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
      ) : <Pending error={jobs.error} what="jobs" />}
    </>
  );
}

function Filter({ name, value }: { name: string; value: string }): JSX.Element {
  return (
    <button type="button" class="on" onClick={() => setQuery({ [name]: "" })} aria-label={`Remove the filter ${name} ${value}`}>
      {`${name} ${value}`} <span aria-hidden="true">×</span>
    </button>
  );
}
