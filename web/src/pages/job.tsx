import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { ApiError, change, OWN, session, SLURM, SLURMDB } from "../api/client";
import { refresh, useAnswer } from "../api/live";
import type { EnvironmentAnswer, GpusAnswer, JobDetailsAnswer, JobInfo, RecordsAnswer, ScriptAnswer, StoryAnswer, WhyAnswer, WhyJobReply } from "../api/types";
import { endingOf } from "../lib/endings";
import { names } from "../lib/hostlist";
import { changeOf, minutes, set } from "../lib/model";
import { link } from "../lib/route";
import { readTres, tresName } from "../lib/tres";
import { HAS_ENDED, words } from "../lib/states";
import { useStore } from "../lib/store";
import { count, does, duration, memory, moment } from "../lib/units";
import { Card, Dialog, Empty, Facts, JobState, Pending, Time } from "../parts/bits";
import { Output, showOutputCard, WHOLE, type Writer } from "../parts/output";
import { JobUse } from "./jobuse";

export function Job({ id }: { id: string }): JSX.Element {
  const path = encodeURIComponent(id);
  const details = useAnswer<JobDetailsAnswer>(`${SLURM}/job/${path}`);
  const isGone = details.error?.status === 404;
  const job = details.data?.jobs[0];
  return (
    <>
      <nav class="crumbs" aria-label="Where this page is"><a href={link(["jobs"])}>Jobs</a> / {id}</nav>
      {job ? <Live id={id} job={job} /> : isGone ? <Past path={path} id={id} /> : <Pending error={details.error} what={`job ${id}`} />}
    </>
  );
}

function Live({ id, job }: { id: string; job: JobInfo }): JSX.Element {
  const path = encodeURIComponent(id);
  const state = job.job_state[0] ?? "";
  const isPending = state === "PENDING";
  const hasStarted = !isPending && job.nodes !== "";
  const why = useAnswer<WhyAnswer>(isPending ? `${OWN}/jobs/${path}/why` : "");
  const story = useAnswer<StoryAnswer>(`${OWN}/jobs/${path}/story`);
  const [writer, setWriter] = useState<Writer>(WHOLE);
  const showOutput = (step: string, task: number): void => {
    setWriter({ step, task });
    showOutputCard();
  };
  return (
    <>
      <header class="page">
        <h1>{job.name || id} <small>{id}</small></h1>
        <JobState state={state} />
        <span class="grow" />
        <Actions id={id} job={job} state={state} />
      </header>
      {endingOf(job) && <p class="notice bad">{endingOf(job)}</p>}
      <div class="columns">
        {isPending && <Why id={id} why={why.data?.why} error={why.error} />}
        <Card title="Time line"><Story story={story.data} error={story.error} job={job} /></Card>
        {job.nodes && <Place job={job} />}
        {hasStarted && (
          <Output id={oneJob(job)} state={state} stdout={job.stdout_expanded} stderr={job.stderr_expanded} writer={writer} choose={setWriter} />
        )}
        <Card title="Details" class="wide"><Facts rows={factsOf(job)} /></Card>
        {hasStarted && <JobUse id={oneJob(job)} state={state} showOutput={showOutput} />}
        {job.batch_flag && <Script id={id} path={path} />}
        {job.batch_flag && <Environment path={path} />}
      </div>
    </>
  );
}

/** The id of a task, where the page's own may be that of its array. */
function oneJob(job: JobInfo): string {
  return job.array_task_id.set ? `${job.array_job_id.number}_${job.array_task_id.number}` : `${job.job_id}`;
}

function factsOf(job: JobInfo): [string, ComponentChildren][] {
  const limit = job.time_limit;
  const perCpu = job.memory_per_cpu;
  const perNode = job.memory_per_node;
  return [
    ["User", job.user_name],
    ["Account", job.account],
    ["Partition", job.partition],
    ["QOS", job.qos],
    ["Submitted", <Time key="t" us={job.submit_time.number * 1e6} />],
    ["Started", <Time key="t" us={job.nodes ? job.start_time.number * 1e6 : 0} />],
    ["Ended", <Time key="t" us={HAS_ENDED.has(job.job_state[0] ?? "") ? job.end_time.number * 1e6 : 0} />],
    ["Time limit", limit.infinite ? "unlimited" : duration(limit.number * 60)],
    ["Nodes", `${job.node_count.number}`],
    ["CPUs", `${job.cpus.number}`],
    ["Memory", perCpu.set ? `${memory(perCpu.number)} per CPU` : perNode.set ? `${memory(perNode.number)} per node` : ""],
    ["Resources", readTres(job.tres_alloc_str || job.tres_req_str)],
    ["Priority", job.priority.number.toLocaleString("en")],
    ["Exit code", HAS_ENDED.has(job.job_state[0] ?? "") ? exitText(job) : ""],
    ["Dependency", job.dependency],
    ["Command", path(job.command)],
    ["Working directory", path(job.current_working_directory)],
    ["Output", path(job.stdout_expanded || job.standard_output)],
    ["Comment", job.comment],
  ];
}

function path(text: string): ComponentChildren {
  return text && <code>{text}</code>;
}

function exitText(job: JobInfo): string {
  const signal = job.exit_code.signal;
  return signal.id.set && signal.id.number ? `signal ${signal.id.number} (${signal.name})` : `${job.exit_code.return_code.number}`;
}

// ---- why it waits

function Why({ id, why, error }: { id: string; why: (WhyJobReply & { sentence: string }) | undefined; error: ApiError | null }): JSX.Element {
  if (!why) return <Card title="Why it waits" class="wide"><Pending error={error} what="the reason" /></Card>;
  const planned = why.planned;
  return (
    <Card title="Why it waits" class="wide">
      <p class="lead">{why.sentence}</p>
      {planned && planned.start_at_us > 0 && (
        <p>
          Planned start: <b><Time us={planned.start_at_us} isRelative /></b>, {moment(planned.start_at_us)}, on{" "}
          <b>{planned.node_list}</b>{planned.if_released ? ", if it is released" : ""}.
        </p>
      )}
      {why.obstacles.length > 0 && (
        <ul class="list">
          {why.obstacles.map((one) => (
            <li key={one.reason + one.text}><b>{one.reason}</b><span class="faint">{one.text}</span>{one.at_us > 0 && <Time us={one.at_us} isRelative />}</li>
          ))}
        </ul>
      )}
      {why.needs.map((one) => (
        <p key={one.partition} class="faint">
          {needText(one)}
        </p>
      ))}
      {why.in_front.length > 0 && (
        <p class="faint">
          In front of it: {why.in_front.slice(0, 5).map((one, index) => (
            <span key={one.shown_id}>{index > 0 && ", "}<a href={link(["jobs", one.shown_id])}>{one.shown_id}</a> ({one.user_name})</span>
          ))}
          {why.in_front.length + why.in_front_more > 5 && ` and ${why.in_front.length + why.in_front_more - 5} more`}.
        </p>
      )}
      {why.hints.length > 0 && <Hints id={id} why={why} />}
    </Card>
  );
}

function needText(one: WhyJobReply["needs"][number]): string {
  const free = one.resources.map((part) => `${tresName(part.name)}: ${part.nodes_free}`).join(", ");
  return `In ${one.partition} it needs ${count(one.nodes_wanted, "node")}; ${does(one.nodes_up, "that could take it is", "that could take it are")} up, ` +
    `${one.nodes_free ? does(one.nodes_free, "has", "have") : "none has"} room now${free ? ` (nodes with enough of each: ${free})` : ""}.`;
}

function Hints({ id, why }: { id: string; why: WhyJobReply }): JSX.Element {
  const [asked, setAsked] = useState<{ text: string; body: Record<string, unknown> } | null>(null);
  return (
    <>
      <h3>What would start it sooner</h3>
      <ul class="list">
        {why.hints.map((hint) => {
          const text = hint.options.join(" ");
          const body = changeOf(hint.options);
          return (
            <li key={text} class="hint-row">
              <code>{text}</code>
              <span class="faint">{hint.starts_now ? "starts now" : <Time us={hint.start_at_us} isRelative />} on {hint.node_list}</span>
              {body && <button type="button" onClick={() => setAsked({ text, body })}>Change the job</button>}
            </li>
          );
        })}
      </ul>
      {asked && (
        <Dialog
          title={`Change job ${id} to ${asked.text}?`} confirm="Change" onClose={() => setAsked(null)}
          onConfirm={() => act("POST", `${SLURM}/job/${encodeURIComponent(id)}`, asked.body)}
        >
          <p>The job keeps its place in the queue and asks for this from now on.</p>
        </Dialog>
      )}
    </>
  );
}

// ---- its life, place and script

const EVENTS: Record<string, string> = {
  submit: "Submitted", start: "Started", end: "Ended", requeue: "Requeued", hold: "Held", release: "Released", suspend: "Suspended",
  resume: "Resumed", update: "Changed",
};

/** `uid 0` as the user's name, `CANCELLED 0:15` in words. */
function detailText(detail: string, job: JobInfo): string {
  if (detail === `uid ${job.user_id}`) return `by ${job.user_name}`;
  const [, state = "", code = "0", signal = "0"] = /^([A-Z_]+) (\d+):(\d+)$/.exec(detail) ?? [];
  if (!state) return detail;
  const how = signal !== "0" ? `, by signal ${signal}` : code !== "0" || state === "FAILED" ? `, exit code ${code}` : "";
  return words(state) + how;
}

function Story({ story, error, job }: { story: StoryAnswer | undefined; error: ApiError | null; job: JobInfo }): JSX.Element {
  if (!story) return <Pending error={error} what="the time line" />;
  if (!story.lines.length) return <Empty>Nothing is recorded.</Empty>;
  return (
    <ol class="story">
      {story.lines.map((one, index) => {
        const before = story.lines[index - 1];
        const gap = before ? (one.at_us - before.at_us) / 1e6 : 0;
        return (
          <li key={index}>
            <Time us={one.at_us} />
            <b>{EVENTS[one.event] ?? words(one.event)}</b>
            <span class="faint">{detailText(one.detail, job)}{gap >= 1 ? ` · ${duration(gap)} later` : ""}</span>
          </li>
        );
      })}
    </ol>
  );
}

function Place({ job }: { job: JobInfo }): JSX.Element {
  const gpus = useAnswer<GpusAnswer>(`${OWN}/gpus?nodes=${encodeURIComponent(job.nodes)}`);
  const mine = gpus.data?.gpus.filter((one) => one.job_ids.includes(job.job_id)) ?? [];
  const nodes = [...new Set((gpus.data?.gpus ?? []).map((one) => one.node))].filter((one) => names(job.nodes, one));
  return (
    <Card title="Nodes and GPUs">
      <p><b>{job.nodes}</b></p>
      {mine.length ? (
        <ul class="list">
          {nodes.map((node) => {
            const here = mine.filter((one) => one.node === node);
            return here.length ? (
              <li key={node}>
                <a href={link(["nodes", node])}>{node}</a>
                <span class="faint">{here.map((one) => `GPU ${one.index}`).join(", ")}{here[0]?.type ? ` · ${here[0].type}` : ""}</span>
              </li>
            ) : null;
          })}
        </ul>
      ) : <Empty>It holds no GPU.</Empty>}
    </Card>
  );
}

function Script({ id, path }: { id: string; path: string }): JSX.Element {
  const script = useAnswer<ScriptAnswer>(`${OWN}/jobs/${path}/script`);
  return (
    <Card
      title="Script" class="wide"
      more={script.data && <a class="button" href={link(["submit"], new URLSearchParams({ from: id }))}>Submit again</a>}
    >
      {script.data ? <pre tabIndex={0} aria-label="Script">{script.data.script}</pre>
        : script.error ? <Empty>{script.error.message}</Empty> : <Pending error={null} what="the script" />}
    </Card>
  );
}

/** It may have secrets, so it is asked for when it is opened, and not before. */
function Environment({ path }: { path: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const answer = useAnswer<EnvironmentAnswer>(isOpen ? `${OWN}/jobs/${path}/environment` : "");
  const lines = answer.data?.environment;
  return (
    <Card title="Environment" class="wide" more={<button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{isOpen ? "Hide" : "Show"}</button>}>
      {!isOpen ? <p class="faint small">The variables that it was submitted with. They may hold secrets.</p>
        : lines ? <pre tabIndex={0} aria-label="Environment">{lines.join("\n")}</pre>
          : answer.error ? <Empty>{answer.error.message}</Empty> : <Pending error={null} what="the environment" />}
    </Card>
  );
}

// ---- what may be done

async function act(method: "POST" | "DELETE", path: string, body?: unknown): Promise<void> {
  interface Done { errors?: { description: string }[]; status?: { error?: { message?: string; code?: number } | string; why?: string; error_code?: number }[] }
  const done = await change<Done>(method, path, body);
  const refused = done.errors?.[0]?.description;
  const failed = done.status?.find((one) => (typeof one.error === "object" ? one.error.code : one.error_code));
  const text = refused ?? (failed && (typeof failed.error === "object" ? failed.error.message : failed.why));
  if (text) throw new ApiError(422, text);
  refresh();
}

type Asked = "cancel" | "hold" | "release" | "requeue" | "limit";

function Actions({ id, job, state }: { id: string; job: JobInfo; state: string }): JSX.Element | null {
  const me = useStore(session);
  const [asked, setAsked] = useState<Asked | null>(null);
  if (!me || !(me.manages || me.user === job.user_name)) return null;
  const hasEnded = HAS_ENDED.has(state);
  const isHeld = state === "PENDING" && job.priority.number === 0;
  const path = `${SLURM}/job/${encodeURIComponent(id)}`;
  const offered: [Asked, string, boolean][] = [
    ["release", "Release", isHeld],
    ["hold", "Hold", state === "PENDING" && !isHeld],
    ["requeue", "Requeue", (state === "RUNNING" || hasEnded) && job.batch_flag],
    ["limit", "Time limit", !hasEnded],
    ["cancel", "Cancel", !hasEnded],
  ];
  const close = (): void => setAsked(null);
  return (
    <div class="buttons">
      {offered.filter((one) => one[2]).map(([what, title]) => (
        <button key={what} type="button" class={what === "cancel" ? "danger" : ""} onClick={() => setAsked(what)}>{title}</button>
      ))}
      {asked === "cancel" && (
        <Dialog title={`Cancel job ${id}?`} confirm="Cancel the job" isDangerous onClose={close} onConfirm={() => act("DELETE", path)}>
          <p>{state === "RUNNING" ? "Its processes are ended. What it has not saved is lost." : "It leaves the queue."}</p>
        </Dialog>
      )}
      {asked === "hold" && (
        <Dialog title={`Hold job ${id}?`} confirm="Hold" onClose={close} onConfirm={() => act("POST", path, { hold: true })}>
          <p>It does not start until it is released.</p>
        </Dialog>
      )}
      {asked === "release" && (
        <Dialog title={`Release job ${id}?`} confirm="Release" onClose={close} onConfirm={() => act("POST", path, { hold: false })}>
          <p>It waits for resources again.</p>
        </Dialog>
      )}
      {asked === "requeue" && (
        <Dialog title={`Requeue job ${id}?`} confirm="Requeue" isDangerous={!hasEnded} onClose={close} onConfirm={() => act("POST", `${SLURM}/jobs/requeue`, { jobs: [id] })}>
          <p>{hasEnded ? "It waits again and runs from the beginning." : "Its processes are ended, and it runs again from the beginning."}</p>
        </Dialog>
      )}
      {asked === "limit" && (
        <Dialog
          title={`Time limit of job ${id}`} confirm="Change" onClose={close}
          input={{ label: "Minutes, or as 1:30:00 or 2-12", value: job.time_limit.infinite ? "" : `${job.time_limit.number}`, isRequired: true }}
          onConfirm={async (text) => {
            const limit = minutes(text);
            if (limit === null || limit < 1) throw new Error(`"${text}" is no time: minutes, hours:minutes:seconds, or days-hours`);
            await act("POST", path, { time_limit: set(limit) });
          }}
        />
      )}
    </div>
  );
}

// ---- a job that the controller has forgotten: what accounting kept

function Past({ path, id }: { path: string; id: string }): JSX.Element {
  const answer = useAnswer<RecordsAnswer>(`${SLURMDB}/job/${path}`);
  const job = answer.data?.jobs[0];
  if (!job) {
    return answer.data ? <div class="notice bad" role="alert">{`There is no job ${id}.`}</div> : <Pending error={answer.error} what={`job ${id}`} />;
  }
  const state = job.state.current[0] ?? "";
  return (
    <>
      <header class="page"><h1>{job.name || id} <small>{id}</small></h1><JobState state={state} /></header>
      <div class="columns">
        <Card title="Details" class="wide">
          <Facts
            rows={[
              ["User", job.user], ["Account", job.account], ["Partition", job.partition],
              ["Submitted", <Time key="t" us={job.time.submission * 1e6} />], ["Started", <Time key="t" us={job.time.start * 1e6} />],
              ["Ended", <Time key="t" us={job.time.end * 1e6} />], ["Elapsed", duration(job.time.elapsed)], ["Nodes", job.nodes],
              ["Exit code", `${job.exit_code.return_code.number}`], ["Working directory", <code key="c">{job.working_directory}</code>],
            ]}
          />
        </Card>
        <JobUse id={id} state={state} />
      </div>
    </>
  );
}
