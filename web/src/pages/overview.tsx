import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { OWN, session, SLURM } from "../api/client";
import { type Answer, useAnswer } from "../api/live";
import type { BudgetInfo, BudgetsAnswer, GpusAnswer, JobsAnswer, NodesAnswer, QueueAnswer } from "../api/types";
import { budgetShare, isBudgetLow } from "../lib/budgets";
import { ACTIVE, busyOf, elapsed, idleAllocations, isRunning, isWaiting, type JobRow, type NodeGpu, nodeRows, type NodeRow, sum } from "../lib/model";
import { BUSY_PERCENT } from "../lib/gpufigures";
import { link } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { count, duration, limit, percent } from "../lib/units";
import { UseOverTime } from "./lastday";
import { useReadings } from "./readings";
import { Bar, Card, Chip, Empty, JobState, Pending, Time } from "../parts/bits";

/** A job that holds GPUs and a reason which will not pass by itself. */
const STUCK = ["DependencyNeverSatisfied", "PartitionDown", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "ReqNodeNotAvail"];
const SHOWN = 8;

type Count = QueueAnswer["queue"][number];

/** The parts of the list of jobs that are shown: the daemon has sorted and counted it. */
function useJobs(filter: Record<string, string>, order: string): Answer<JobsAnswer> {
  return useAnswer<JobsAnswer>(`${OWN}/jobs?${new URLSearchParams({ ...filter, order, count: String(SHOWN) })}`);
}

export function Overview(): JSX.Element {
  const queue = useAnswer<QueueAnswer>(`${OWN}/queue?states=PENDING,${ACTIVE}`);
  const nodes = useAnswer<NodesAnswer>(`${SLURM}/nodes`);
  const gpus = useAnswer<GpusAnswer>(`${OWN}/gpus`);
  const readings = useReadings(gpus.data?.gpus);
  const me = useStore(session)?.user ?? "";
  const mine = useJobs({ users: me }, "-job_id");
  const mineActive = useJobs({ users: me, states: ACTIVE }, "-start_at_us");
  const next = useJobs({ states: "PENDING" }, "planned_start_at_us");
  const budgets = useAnswer<BudgetsAnswer>(`${OWN}/budgets`).data?.budgets ?? [];
  const rows = useMemo(() => nodeRows(nodes.data?.nodes ?? [], gpus.data?.gpus ?? [], readings), [nodes.data, gpus.data, readings]);
  const error = queue.error ?? nodes.error ?? gpus.error ?? mine.error ?? mineActive.error ?? next.error;
  if (!queue.data || !nodes.data || !gpus.data || !mine.data || !mineActive.data || !next.data) {
    return <><h1>Overview</h1><Pending error={error} what="the cluster" /></>;
  }
  const waiting = queue.data.queue.filter(isWaiting);
  const running = queue.data.queue.filter(isRunning);
  return (
    <>
      <h1>Overview</h1>
      <div class="tiles">
        <Gpus rows={rows} />
        <Cpus rows={rows} />
        <Nodes rows={rows} />
        <Queue running={sum(running, jobsOf)} waiting={sum(waiting, jobsOf)} />
      </div>
      <div class="columns">
        <Mine active={mineActive.data.jobs} latest={mine.data.jobs} total={mine.data.total ?? 0} me={me} />
        <Attention rows={rows} waiting={waiting} budgets={budgets.filter(isBudgetLow)} />
        <Partitions waiting={waiting} running={running} />
        <Next jobs={next.data.jobs} />
        <UseOverTime title="Use over the last day" hasGpus={rows.some((one) => one.gpus.length > 0)} />
      </div>
    </>
  );
}

function jobsOf(one: Count): number {
  return one.jobs;
}

function Gpus({ rows }: { rows: readonly NodeRow[] }): JSX.Element {
  const all = rows.flatMap((one) => one.gpus);
  const of = (use: string): number => all.filter((one) => one.use === use).length;
  return (
    <Card title="GPUs" more={<span class="big">{all.length}</span>}>
      {all.length ? (
        <Bar
          unit="GPUs"
          shares={[
            { label: "allocated", amount: of("busy"), tone: "run" },
            ...(of("unused") ? [{ label: "left idle by jobs", amount: of("unused"), tone: "unused" as const }] : []),
            { label: "idle", amount: of("free"), tone: "idle" },
            { label: "closed", amount: of("closed"), tone: "wait" },
            { label: "broken", amount: of("broken"), tone: "bad" },
          ]}
        />
      ) : <Empty>No node has a GPU.</Empty>}
      <Busy gpus={all} />
    </Card>
  );
}

/** How many of those that jobs have do something. */
function Busy({ gpus }: { gpus: readonly NodeGpu[] }): JSX.Element | null {
  const { allocated, busy, unknown } = busyOf(gpus);
  if (allocated === unknown) return null;
  const rest = unknown ? `, ${unknown} not known` : "";
  return (
    <p class="faint small" title={`A GPU is busy from a utilisation of ${BUSY_PERCENT} % on`}>
      <b>{`${busy} busy`}</b>{` of ${allocated} that jobs have${rest}`}
    </p>
  );
}

function Cpus({ rows }: { rows: readonly NodeRow[] }): JSX.Element {
  const total = sum(rows, (one) => one.node.cpus);
  const busy = sum(rows, (one) => one.node.alloc_cpus);
  const open = sum(rows.filter((one) => one.tone === "run" || one.tone === "good"), (one) => one.node.cpus - one.node.alloc_cpus);
  return (
    <Card title="CPUs" more={<span class="big">{total.toLocaleString("en")}</span>}>
      <Bar
        unit="CPUs"
        shares={[
          { label: "allocated", amount: busy, tone: "run" },
          { label: "idle", amount: open, tone: "idle" },
          { label: "out of use", amount: total - busy - open, tone: "wait" },
        ]}
      />
    </Card>
  );
}

function Nodes({ rows }: { rows: readonly NodeRow[] }): JSX.Element {
  const of = (tone: string): number => rows.filter((one) => one.tone === tone).length;
  return (
    <Card title="Nodes" more={<a class="big" href={link(["nodes"])}>{rows.length}</a>}>
      <Bar
        unit="nodes"
        shares={[
          { label: "in use", amount: of("run"), tone: "run" },
          { label: "idle", amount: of("good"), tone: "idle" },
          { label: "drained", amount: of("wait"), tone: "wait" },
          { label: "down", amount: of("bad"), tone: "bad" },
        ]}
      />
    </Card>
  );
}

function Queue({ running, waiting }: { running: number; waiting: number }): JSX.Element {
  return (
    <Card title="Jobs" more={<a class="big" href={link(["jobs"])}>{(running + waiting).toLocaleString("en")}</a>}>
      <Bar
        unit="jobs"
        shares={[
          { label: "running", amount: running, tone: "run" },
          { label: "waiting", amount: waiting, tone: "wait" },
        ]}
      />
    </Card>
  );
}

export function jobLink(job: { job_id: number; shown_id: string; name: string }): JSX.Element {
  return <a class="job" href={link(["jobs", job.shown_id])}><b>{job.shown_id}</b> <span>{job.name}</span></a>;
}

function Mine({ active, latest, total, me }: {
  active: readonly JobRow[]; latest: readonly JobRow[]; total: number; me: string;
}): JSX.Element {
  const order = (one: JobRow): number => (isWaiting(one) ? 0 : 1);
  const others = latest.filter((one) => !isRunning(one)).sort((a, b) => order(a) - order(b) || b.job_id - a.job_id);
  const shown = [...active, ...others].slice(0, SHOWN);
  const now = Date.now() * 1000;
  const more = total ? <a href={link(["jobs"], new URLSearchParams({ user: me }))}>{`all ${total.toLocaleString("en")}`}</a> : null;
  return (
    <Card title="My jobs" more={more}>
      {shown.length ? (
        <ul class="list">
          {shown.map((one) => (
            <li key={one.shown_id}>
              {jobLink(one)}
              <span class="faint">
                {isRunning(one) ? `${duration(elapsed(one, now))} of ${limit(one.time_limit_s)}` : isWaiting(one) ? one.reason : <Time us={one.end_at_us} isRelative />}
              </span>
              <JobState state={one.state} />
            </li>
          ))}
        </ul>
      ) : <Empty>You have no jobs. <a href={link(["submit"])}>Submit one</a>, or start <a href={link(["sessions"])}>a notebook or a terminal</a>.</Empty>}
    </Card>
  );
}

function Attention({ rows, waiting, budgets }: {
  rows: readonly NodeRow[]; waiting: readonly Count[]; budgets: readonly BudgetInfo[];
}): JSX.Element {
  const nodes = rows.filter((one) => one.tone === "bad" || one.tone === "wait");
  const gpus = rows.filter((one) => one.tone !== "bad").flatMap((one) => one.gpus).filter(({ gpu }) => gpu.state !== "HEALTHY");
  const stuck = total(waiting.filter((one) => STUCK.includes(one.reason)), (one) => one.reason);
  const idle = idleAllocations(rows);
  const now = Date.now() * 1000;
  const number = nodes.length + gpus.length + idle.length + budgets.length + sum(stuck, (one) => one[1]);
  return (
    <Card title="Needs attention" more={number ? <span class="faint">{number}</span> : null}>
      {number ? (
        <ul class="list">
          {nodes.slice(0, SHOWN).map(({ node, tone }) => (
            <li key={node.name}>
              <a class="job" href={link(["nodes", node.name])}><b>{node.name}</b> <span>{node.reason}</span></a>
              <Chip tone={tone}>{words(node.state.join(" "))}</Chip>
            </li>
          ))}
          {gpus.slice(0, SHOWN).map(({ gpu, use }) => (
            <li key={gpu.uuid}>
              <a class="job" href={link(["nodes", gpu.node])}><b>{`${gpu.node} GPU ${gpu.index}`}</b> <span>{gpu.reason}</span></a>
              <Chip tone={use === "broken" ? "bad" : "wait"}>{words(gpu.state)}</Chip>
            </li>
          ))}
          {idle.slice(0, SHOWN).map((one) => (
            <li key={`${one.node} ${one.jobId}`}>
              <a class="job" href={link(["jobs", one.jobId])}><b>{one.jobId}</b> <span>{`leaves ${count(one.gpus, "GPU")} of ${one.node} idle`}</span></a>
              <Chip tone="wait">{`for ${duration((now - one.sinceUs) / 1e6)}`}</Chip>
            </li>
          ))}
          {budgets.slice(0, SHOWN).map((one) => (
            <li key={`${one.account} ${one.unit}`}>
              <a class="job" href={link(["accounts"], new URLSearchParams({ q: one.account }))}><b>{one.account}</b> <span>{`budget of ${one.amount} ${one.unit}`}</span></a>
              <Chip tone={budgetShare(one) >= 1 ? "bad" : "wait"}>{`${percent(100 * budgetShare(one))} gone`}</Chip>
            </li>
          ))}
          {stuck.slice(0, SHOWN).map(([reason, jobs]) => (
            <li key={reason}>
              <a class="job" href={link(["jobs"], new URLSearchParams({ state: "PENDING", q: reason }))}><b>{count(jobs, "job")}</b> <span>cannot start</span></a>
              <Chip tone="wait">{reason}</Chip>
            </li>
          ))}
        </ul>
      ) : <Empty>Nothing: all nodes and GPUs are in order, no job is stuck, and no budget is near its end.</Empty>}
    </Card>
  );
}

/** Numbers of jobs by a key, the largest first. */
function total(counts: readonly Count[], key: (one: Count) => string): [string, number][] {
  const found = new Map<string, number>();
  for (const one of counts) found.set(key(one), (found.get(key(one)) ?? 0) + one.jobs);
  return [...found].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

function Partitions({ waiting, running }: { waiting: readonly Count[]; running: readonly Count[] }): JSX.Element {
  const names = total([...waiting, ...running], (one) => one.partition);
  const reasons = total(waiting, (one) => one.reason || "None");
  return (
    <Card title="Queue">
      {names.length ? (
        <div class="scroll">
          <table class="plain">
            <thead><tr><th scope="col">Partition</th><th scope="col" class="number">Running</th><th scope="col" class="number">Waiting</th><th scope="col" class="number">GPUs wanted</th></tr></thead>
            <tbody>
              {names.slice(0, SHOWN).map(([name]) => {
                const mine = waiting.filter((one) => one.partition === name);
                return (
                  <tr key={name}>
                    <th scope="row"><a href={link(["jobs"], new URLSearchParams({ partition: name }))}>{name}</a></th>
                    <td class="number">{sum(running.filter((one) => one.partition === name), jobsOf).toLocaleString("en")}</td>
                    <td class="number">{sum(mine, jobsOf).toLocaleString("en")}</td>
                    <td class="number">{sum(mine, (one) => one.gpus).toLocaleString("en")}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          <ul class="reasons">
            {reasons.slice(0, SHOWN).map(([reason, number]) => (
              <li key={reason}>
                <a href={link(["jobs"], new URLSearchParams({ state: "PENDING", q: reason }))}>{reason}</a> <span class="faint">{count(number, "job")}</span>
              </li>
            ))}
          </ul>
        </div>
      ) : <Empty>No job runs or waits.</Empty>}
    </Card>
  );
}

function Next({ jobs }: { jobs: readonly JobRow[] }): JSX.Element {
  const next = jobs.filter((one) => one.planned_start_at_us > 0);
  return (
    <Card title="Starting next">
      {next.length ? (
        <ol class="list">
          {next.map((one) => (
            <li key={one.shown_id}>
              {jobLink(one)}
              <span class="faint">{one.user_name}</span>
              <Time us={one.planned_start_at_us} isRelative />
            </li>
          ))}
        </ol>
      ) : <Empty>No waiting job has a planned start.</Empty>}
    </Card>
  );
}
