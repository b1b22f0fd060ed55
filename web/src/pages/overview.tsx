import type { JSX } from "preact";

import { OWN, session, SLURM } from "../api/client";
import { useAnswer } from "../api/live";
import type { GpusAnswer, JobsAnswer, NodesAnswer } from "../api/types";
import { countBy, elapsed, isRunning, isWaiting, type JobRow, nodeRows, type NodeRow, sum } from "../lib/model";
import { link } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { count, duration, gpusOf, limit } from "../lib/units";
import { Bar, Card, Chip, Empty, JobState, Pending, Time } from "../parts/bits";

/** A job that holds GPUs and a reason which will not pass by itself. */
const STUCK = ["DependencyNeverSatisfied", "PartitionDown", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "ReqNodeNotAvail"];
const SHOWN = 8;

export function Overview(): JSX.Element {
  const jobs = useAnswer<JobsAnswer>(`${OWN}/jobs`);
  const nodes = useAnswer<NodesAnswer>(`${SLURM}/nodes`);
  const gpus = useAnswer<GpusAnswer>(`${OWN}/gpus`);
  const me = useStore(session)?.user ?? "";
  const error = jobs.error ?? nodes.error ?? gpus.error;
  if (!jobs.data || !nodes.data || !gpus.data) {
    return <><h1>Overview</h1><Pending error={error} what="the cluster" /></>;
  }
  const rows = nodeRows(nodes.data.nodes, gpus.data.gpus);
  const all = jobs.data.jobs;
  const waiting = all.filter(isWaiting);
  const running = all.filter(isRunning);
  return (
    <>
      <h1>Overview</h1>
      <div class="tiles">
        <Gpus rows={rows} />
        <Cpus rows={rows} />
        <Nodes rows={rows} />
        <Queue running={running.length} waiting={waiting.length} />
      </div>
      <div class="columns">
        <Mine jobs={all.filter((one) => one.user_name === me)} me={me} />
        <Attention rows={rows} waiting={waiting} />
        <Partitions waiting={waiting} running={running} />
        <Next waiting={waiting} />
      </div>
    </>
  );
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
            { label: "idle", amount: of("free"), tone: "idle" },
            { label: "closed", amount: of("closed"), tone: "wait" },
            { label: "broken", amount: of("broken"), tone: "bad" },
          ]}
        />
      ) : <Empty>No node has a GPU.</Empty>}
    </Card>
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

function Mine({ jobs, me }: { jobs: readonly JobRow[]; me: string }): JSX.Element {
  const order = (one: JobRow): number => (isRunning(one) ? 0 : isWaiting(one) ? 1 : 2);
  const shown = [...jobs].sort((a, b) => order(a) - order(b) || b.job_id - a.job_id).slice(0, SHOWN);
  const now = Date.now() * 1000;
  const more = jobs.length ? <a href={link(["jobs"], new URLSearchParams({ user: me }))}>{`all ${jobs.length}`}</a> : null;
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
      ) : <Empty>You have no jobs. <code>sbatch --gpus 1 script.sh</code> makes one.</Empty>}
    </Card>
  );
}

function Attention({ rows, waiting }: { rows: readonly NodeRow[]; waiting: readonly JobRow[] }): JSX.Element {
  const nodes = rows.filter((one) => one.tone === "bad" || one.tone === "wait");
  const gpus = rows.filter((one) => one.tone !== "bad").flatMap((one) => one.gpus).filter(({ gpu }) => gpu.state !== "HEALTHY");
  const stuck = waiting.filter((one) => STUCK.includes(one.reason));
  const total = nodes.length + gpus.length + stuck.length;
  return (
    <Card title="Needs attention" more={total ? <span class="faint">{total}</span> : null}>
      {total ? (
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
          {stuck.slice(0, SHOWN).map((one) => (
            <li key={one.shown_id}>{jobLink(one)}<Chip tone="wait">{one.reason}</Chip></li>
          ))}
        </ul>
      ) : <Empty>Nothing: all nodes and GPUs are in order, and no job is stuck.</Empty>}
    </Card>
  );
}

function Partitions({ waiting, running }: { waiting: readonly JobRow[]; running: readonly JobRow[] }): JSX.Element {
  const names = countBy([...waiting, ...running], (one) => one.partition);
  const reasons = countBy(waiting, (one) => one.reason || "None");
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
                    <td class="number">{running.filter((one) => one.partition === name).length}</td>
                    <td class="number">{mine.length}</td>
                    <td class="number">{sum(mine, (one) => gpusOf(one.tres))}</td>
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

function Next({ waiting }: { waiting: readonly JobRow[] }): JSX.Element {
  const next = waiting.filter((one) => one.planned_start_at_us > 0).sort((a, b) => a.planned_start_at_us - b.planned_start_at_us);
  return (
    <Card title="Starting next">
      {next.length ? (
        <ol class="list">
          {next.slice(0, SHOWN).map((one) => (
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
