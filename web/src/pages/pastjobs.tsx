import type { JSX } from "preact";

import { OWN, session } from "../api/client";
import type { PastJobsAnswer } from "../api/types";
import { bounds, isPeriod, type Period, PERIODS } from "../lib/periods";
import { link, route, setQuery } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { readTres } from "../lib/tres";
import { bytes, duration, fullTime, gpusOf, limit, percent } from "../lib/units";
import { JobState, Time } from "../parts/bits";
import { type OrderedColumn, WindowTable } from "../parts/windowtable";
import { JobsHead, STATES } from "./jobs";

/** Jobs of a period as accounting has them, with what they used: what `sacct` shows, as columns. The newest are first. */

type Row = PastJobsAnswer["jobs"][number];

/** Accounting is read for it, so it is asked again seldom. */
const EVERY_MS = 60_000;

function column(id: string, title: string, width: number, text: (job: Row) => string, more: Partial<OrderedColumn<Row>> = {}): OrderedColumn<Row> {
  return { id, title, order: "", width, value: text, isUnordered: true, ...more };
}
const shown = { isHidden: false };
const hidden = { isHidden: true };
const number = { isNumber: true };

function time(id: string, title: string, at: (job: Row) => number, more = hidden): OrderedColumn<Row> {
  return column(id, title, 8, (job) => fullTime(at(job)), { show: (job) => <Time us={at(job)} />, ...more });
}

/** What no step has recorded is empty: it is not 0. */
function known(value: number | null, text: (value: number) => string): string {
  return value === null ? "" : text(value);
}
const seconds = (us: number | null): string => known(us, (value) => duration(value / 1e6));
const kib = (size: number | null): string => known(size, (value) => bytes(value * 1024));

/** CPU time of what the job had, as a share. */
function efficiency(job: Row): string {
  return job.cpu_used_us === null || !job.cpu_allocated_s ? "" : percent(job.cpu_used_us / 1e4 / job.cpu_allocated_s);
}

export const COLUMNS: readonly OrderedColumn<Row>[] = [
  column("id", "Job", 6.5, (job) => job.shown_id, { show: (job) => <a href={link(["jobs", job.shown_id])}>{job.shown_id}</a> }),
  column("state", "State", 8.5, (job) => job.state, { show: (job) => <JobState state={job.state} /> }),
  column("exit", "Exit code", 6.5, (job) => `${job.exit_code}:${job.exit_signal}`),
  column("name", "Name", 9, (job) => job.name),
  column("user", "User", 6, (job) => job.user_name),
  column("account", "Account", 8, (job) => job.account, hidden),
  column("partition", "Partition", 7, (job) => job.partition, hidden),
  column("gpus", "GPUs", 4.5, (job) => `${gpusOf(job.tres || job.tres_requested)}`, number),
  column("cpus", "CPUs", 4.5, (job) => `${job.cpus}`, number),
  time("start", "Started", (job) => job.start_at_us, shown),
  time("end", "Ended", (job) => job.end_at_us),
  column("elapsed", "Elapsed", 6, (job) => (job.start_at_us ? duration(job.elapsed_s) : ""), number),
  column("cputime", "CPU time", 6, (job) => seconds(job.cpu_used_us), number),
  column("cpupart", "CPU use", 5.5, efficiency, number),
  column("rss", "Peak memory", 7.5, (job) => kib(job.max_rss_kb), number),
  column("nodes", "Nodes", 8, (job) => job.node_list),
  column("cpuhad", "CPU time allocated", 9, (job) => duration(job.cpu_allocated_s), { ...number, ...hidden }),
  column("usercpu", "CPU time in programs", 9, (job) => seconds(job.user_cpu_us), { ...number, ...hidden }),
  column("systemcpu", "CPU time in the system", 10, (job) => seconds(job.system_cpu_us), { ...number, ...hidden }),
  column("vmsize", "Peak virtual memory", 9, (job) => kib(job.max_vmsize_kb), { ...number, ...hidden }),
  column("read", "Read from disks", 8, (job) => known(job.disk_read_bytes, bytes), { ...number, ...hidden }),
  column("written", "Written to disks", 8, (job) => known(job.disk_written_bytes, bytes), { ...number, ...hidden }),
  column("energy", "Energy of GPUs", 8, (job) => known(job.energy_joules, (value) => `${value.toLocaleString("en")} J`), { ...number, ...hidden }),
  time("submit", "Submitted", (job) => job.submit_at_us),
  time("eligible", "Eligible", (job) => job.eligible_at_us),
  column("waited", "Waited", 7, (job) => duration(job.waited_s), { ...number, ...hidden }),
  column("suspended", "Suspended", 7, (job) => (job.suspended_s ? duration(job.suspended_s) : ""), { ...number, ...hidden }),
  column("limit", "Limit", 8, (job) => limit(job.time_limit_s), { ...number, ...hidden }),
  column("steps", "Steps", 5, (job) => `${job.steps}`, { ...number, ...hidden }),
  column("derived", "Highest exit code of steps", 12, (job) => `${job.derived_exit_code}`, { ...number, ...hidden }),
  column("attempt", "Restarts", 6, (job) => `${job.attempt}`, { ...number, ...hidden }),
  column("priority", "Priority", 8, (job) => job.priority.toLocaleString("en"), { ...number, ...hidden }),
  column("qos", "QOS", 6, (job) => job.qos, hidden),
  column("group", "Group", 7, (job) => job.group_name, hidden),
  column("wckey", "Wckey", 7, (job) => job.wckey, hidden),
  column("reason", "Reason", 10, (job) => (job.reason === "None" ? "" : job.reason), hidden),
  column("failed", "Failed node", 8, (job) => job.failed_node, hidden),
  column("tres", "Resources", 16, (job) => readTres(job.tres), hidden),
  column("asked", "Resources asked", 16, (job) => readTres(job.tres_requested), hidden),
  column("features", "Features", 9, (job) => job.features, hidden),
  column("reservation", "Reservation", 8, (job) => job.reservation, hidden),
  column("licenses", "Licenses", 8, (job) => job.licenses, hidden),
  column("comment", "Comment", 12, (job) => job.comment, hidden),
  column("admincomment", "Comment of administrators", 12, (job) => job.admin_comment, hidden),
  column("systemcomment", "Comment of the system", 12, (job) => job.system_comment, hidden),
  column("line", "Submit line", 16, (job) => job.submit_line, hidden),
  column("workdir", "Working directory", 16, (job) => job.work_dir, hidden),
  column("stdout", "Output", 16, (job) => job.std_out, hidden),
  column("stderr", "Errors", 16, (job) => job.std_err, hidden),
];
/** In the address: the daemon's filter, and its title. */
const TEXTS = [["user", "User", "users"], ["account", "Account", "accounts"], ["partition", "Partition", "partitions"], ["name", "Name", "names"], ["node", "Node", "nodes"]] as const;

/** The times that are asked for; a period that has not ended has no end, so the question stays the same. "": the dates are none. */
export function timesOf(period: Period, from: string, to: string, now: Date = new Date()): { start: string; end: string } | null {
  const range = bounds(period, from, to, now);
  return range && { start: `${range[0]}`, end: range[1] * 1000 < now.getTime() ? `${range[1]}` : "" };
}

export function PastJobs(): JSX.Element {
  const { query } = useStore(route);
  const asked = query.get("period") ?? "";
  const period: Period = isPeriod(asked) ? asked : "week";
  const times = timesOf(period, query.get("from") ?? "", query.get("to") ?? "");
  const state = query.get("state") ?? "";
  const filter: Record<string, string> = { ...times, states: state };
  for (const [name, , parameter] of TEXTS) filter[parameter] = query.get(name) ?? "";
  const tools = <Tools period={period} state={state} query={query} />;
  return (
    <>
      <JobsHead isPast />
      {times ? (
        <WindowTable<Row, PastJobsAnswer>
          label="Past jobs" noun="job" path={`${OWN}/jobs/past`} filter={filter} rowsOf={rowsOf} columns={COLUMNS} query={query} order="" isUnsearched
          everyMs={EVERY_MS} rowKey={(job) => `${job.job_id}.${job.attempt}.${job.submit_at_us}.${job.start_at_us}`} open={(job) => link(["jobs", job.shown_id])}
          empty="No job of this period passes these filters." tools={tools}
        />
      ) : <div class="table-box"><div class="tools">{tools}</div><p class="empty">Choose two dates, the earlier one first.</p></div>}
    </>
  );
}

function rowsOf(answer: PastJobsAnswer): readonly Row[] {
  return answer.jobs;
}

function Tools({ period, state, query }: { period: Period; state: string; query: URLSearchParams }): JSX.Element {
  const me = useStore(session)?.user ?? "";
  const day = (name: "from" | "to", label: string): JSX.Element => (
    <input type="date" aria-label={label} value={query.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value })} />
  );
  return (
    <>
      <select aria-label="Period" value={period} onChange={(event) => setQuery({ period: event.currentTarget.value })}>
        {Object.entries(PERIODS).map(([name, title]) => <option key={name} value={name}>{title}</option>)}
      </select>
      {period === "dates" && <>{day("from", "First day")}{day("to", "Last day")}</>}
      <select aria-label="State" value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
        <option value="">All states</option>
        {STATES.map((one) => <option key={one} value={one}>{words(one)}</option>)}
      </select>
      <button type="button" class={query.get("user") === me ? "on" : ""} aria-pressed={query.get("user") === me} onClick={() => setQuery({ user: query.get("user") === me ? "" : me })}>
        My jobs
      </button>
      {TEXTS.map(([name, title]) => (
        <input
          key={name} class="short" placeholder={title} aria-label={title} value={query.get(name) ?? ""} autocomplete="off" spellcheck={false}
          onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim() })}
        />
      ))}
    </>
  );
}
