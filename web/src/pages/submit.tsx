import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiError, change, OWN, read, type Remark, session, SLURM } from "../api/client";
import { refresh, useAnswer } from "../api/live";
import type { FitsAnswer, FittingShape, GpusAnswer, JobDetailsAnswer, JobInfo, ScriptAnswer, TestAnswer } from "../api/types";
import { lineRemarks } from "../lib/lint";
import { isSame, optionsOf, type ScriptOption, valueOf, withOption } from "../lib/options";
import { type Preset, presetsOf } from "../lib/presets";
import { newRequestKey } from "../lib/requestkey";
import { link, route } from "../lib/route";
import { readScript } from "../lib/scriptfile";
import { useStore } from "../lib/store";
import { readGpus } from "../lib/tres";
import { count, duration, memory, moment } from "../lib/units";
import { Card, Pending, Time } from "../parts/bits";
import { ScriptEditor } from "../parts/editor";
import { draft, START, useDrafted, useLint, useVerdict, type Verdict } from "./jobdraft";
import { Fields, said } from "./jobfields";
import { LastJobs } from "./lastjobs";
import { Templates } from "./templates";

/**
 * A script and a form that write each other: the form shows the #SBATCH lines, and a change of it changes them. What the
 * controller's planner says of the job as it stands is beside them.
 */

export function Submit(): JSX.Element {
  const { query } = useStore(route);
  const from = query.get("from") ?? "";
  return from ? <Again key={from} id={from} /> : <Form key="" script={draft.value} folder="" />;
}

/** Filled with what a job had. */
function Again({ id }: { id: string }): JSX.Element {
  const path = encodeURIComponent(id);
  const [found, setFound] = useState<{ script: string; folder: string } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const script = read<ScriptAnswer>(`${OWN}/jobs/${path}/script`);
    const details = read<JobDetailsAnswer>(`${SLURM}/job/${path}`);
    Promise.all([script, details]).then(
      ([one, other]) => setFound(scriptOf(one?.data.script ?? "", other?.data.jobs[0])),
      (problem: unknown) => setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem))),
    );
  }, [path]);
  if (!found) return <><h1>Submit a job</h1><Pending error={error} what={`job ${id}`} /></>;
  return <Form script={found.script} folder={found.folder} from={id} />;
}

/** The job's script, with those options that its lines do not have or that were changed by the command line. */
function scriptOf(script: string, job: JobInfo | undefined): { script: string; folder: string } {
  if (!job) return { script, folder: "" };
  const more = (number: { set: boolean; number: number }): string => (number.set && number.number > 1 ? `${number.number}` : "");
  const limit = job.time_limit;
  const size = (number: { set: boolean; number: number }): string => (number.set && number.number > 0 ? `${number.number}M` : "");
  const gpus = (text: string): string => /^gres[/:]gpu[:=](.+)$/.exec(text)?.[1] ?? "";
  const wanted: [string, string][] = [
    ["job-name", job.name], ["partition", job.partition], ["account", job.account], ["qos", job.qos],
    ["nodes", more(job.node_count)], ["ntasks", more(job.tasks)], ["cpus-per-task", more(job.cpus_per_task)],
    ["mem", size(job.memory_per_node)], ["mem-per-cpu", size(job.memory_per_cpu)], ["gpus", gpus(job.tres_per_job)],
    ["gpus-per-node", gpus(job.tres_per_node)], ["gpus-per-task", gpus(job.tres_per_task)],
    ["time", limit.infinite ? "UNLIMITED" : limit.set ? `${limit.number}` : ""], ["constraint", job.features],
  ];
  const { options } = optionsOf(script);
  const made = wanted.reduce(
    (text, [name, value]) => (!value || isSame(name, valueOf(options, name), value) ? text : withOption(text, name, value)),
    script,
  );
  return { script: made, folder: job.current_working_directory };
}

function Form(props: { script: string; folder: string; from?: string }): JSX.Element {
  const me = useStore(session)?.user ?? "";
  const [script, setScript] = useState(props.script);
  const { job, options, problems, usual, isReady } = useDrafted(script, props.folder);
  const verdict = useVerdict<TestAnswer>("jobs/test", isReady ? job : null);
  const linted = useLint(script);
  const [fileSaid, setFileSaid] = useState<FileSaid>({ text: "", isRefusal: false });
  const lines = useMemo(() => lineRemarks(problems, linted.findings), [problems, linted.findings]);
  useEffect(() => {
    if (!props.from) draft.set(script);
  }, [script, props.from]);
  const [refusal, setRefusal] = useState<ApiError | null>(null);
  useEffect(() => setRefusal(null), [job]);
  const remarks: readonly Remark[] = [
    ...(refusal?.remarks ?? verdict?.error?.remarks ?? []), ...(verdict?.answer?.warnings ?? []),
  ];
  const edit = (name: string, value: string): void => setScript((before) => withOption(before, name, value));
  return (
    <>
      <header class="page">
        <h1>{props.from ? <>Submit again <small>{props.from}</small></> : "Submit a job"}</h1>
      </header>
      <Free onChoose={(partition, shape) => {
        edit("partition", partition);
        edit("nodes", shape.nodes > 1 ? `${shape.nodes}` : "");
        edit("gpus", shape.gres ? `${shape.gres * Math.max(1, shape.nodes)}` : "");
      }} />
      <Presets onChoose={(preset) => {
        edit("nodes", preset.isNode ? "1" : "");
        edit("gpus-per-node", preset.isNode ? preset.gpus : "");
        edit("gpus", preset.isNode ? "" : preset.gpus);
      }} />
      <div class="columns">
        <Card title="When it would start" class="wide">
          <Start verdict={verdict} isReady={isReady} refusal={refusal} remarks={remarks} gpus={gpusText(options)} />
          <Send job={job} isReady={isReady} onRefused={setRefusal} onAsk={() => draft.set(script)} />
        </Card>
        <Card title="What it needs">
          <Fields options={options} usual={usual} remarks={remarks} onEdit={edit} />
        </Card>
        <Card title="Script" class="fill" more={<Upload onRead={setScript} onSaid={setFileSaid} />}>
          {fileSaid.text && <p class={`notice ${fileSaid.isRefusal ? "bad" : "wait"}`} role={fileSaid.isRefusal ? "alert" : "status"}>{fileSaid.text}</p>}
          <ScriptEditor script={script} remarks={lines} onInput={setScript} />
          {linted.note && <p class="faint small">{linted.note}</p>}
          {said(remarks, "#/script").map((text) => <p key={text} class="notice bad" role="alert">{text}</p>)}
        </Card>
        <Templates user={me} script={script} onChoose={setScript} />
        <LastJobs />
      </div>
    </>
  );
}

/** Takes the script from a file. `onSaid`: what is wrong with the file, or was changed in it; "" with neither. */
function Upload({ onRead, onSaid }: { onRead: (text: string) => void; onSaid: (said: FileSaid) => void }): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  const take = async (file: File): Promise<void> => {
    try {
      const { script, note } = await readScript(file);
      onRead(script);
      onSaid({ text: note, isRefusal: false });
    } catch (problem) {
      onSaid({ text: problem instanceof Error ? problem.message : String(problem), isRefusal: true });
    }
    if (input.current) input.current.value = ""; // so that the same file can be chosen again
  };
  const choose = (file: File | undefined): void => {
    if (file) void take(file);
  };
  return (
    <>
      <button type="button" onClick={() => input.current?.click()}>Open a file</button>
      <input ref={input} type="file" hidden aria-label="Script file" onChange={(event) => choose(event.currentTarget.files?.[0])} />
    </>
  );
}

interface FileSaid {
  readonly text: string;
  readonly isRefusal: boolean;
}

/** Shapes with all that is free on their nodes: the largest of one node, and of several. */
const KINDS = ["node", "whole_nodes"];

/** The largest jobs that would start now. */
function Free({ onChoose }: { onChoose: (partition: string, shape: FittingShape) => void }): JSX.Element | null {
  const fits = useAnswer<FitsAnswer>(`${OWN}/fits`);
  const found = (fits.data?.fits.partitions ?? []).flatMap((one) =>
    one.shapes.filter((shape) => KINDS.includes(shape.kind)).map((shape) => ({ partition: one.partition, shape })));
  // Where one node is free, that is also the most nodes.
  const different = [...new Map(found.map((one) => [`${one.partition} ${shapeText(one.shape)}`, one])).values()];
  if (!different.length) return null;
  return (
    <p class="free" role="group" aria-label="What is free now">
      <span class="faint">Free now:</span>
      {different.map(({ partition, shape }) => (
        <button key={`${partition} ${shape.kind}`} type="button" title={`on ${shape.node_list}`} onClick={() => onChoose(partition, shape)}>
          <b>{partition}</b> {shapeText(shape)}
        </button>
      ))}
    </p>
  );
}

/** Types of GPUs do not change from one minute to the next. */
const GPUS_EVERY_MS = 300_000;

/** For each type of GPU: one, and all of a node. */
function Presets({ onChoose }: { onChoose: (preset: Preset) => void }): JSX.Element | null {
  const gpus = useAnswer<GpusAnswer>(`${OWN}/gpus`, GPUS_EVERY_MS).data?.gpus;
  const found = useMemo(() => presetsOf(gpus ?? []), [gpus]);
  if (!found.length) return null;
  return (
    <p class="free" role="group" aria-label="By type of GPU">
      <span class="faint">By GPU:</span>
      {found.map((one) => <button key={one.title} type="button" onClick={() => onChoose(one)}>{one.title}</button>)}
    </p>
  );
}

function shapeText(shape: FittingShape): string {
  const each = [shape.gres ? count(shape.gres, "GPU") : "", count(shape.cpus, "CPU"), memory(shape.mem_mb)].filter(Boolean).join(", ");
  const limit = shape.limit_s >= 0 ? `, up to ${duration(shape.limit_s)}` : "";
  return `${count(shape.nodes, "node")}${shape.nodes > 1 ? " with each" : ":"} ${each}${limit}`;
}

/** The GPUs that a script asks for, in words; "": none. */
function gpusText(options: readonly ScriptOption[]): string {
  const kinds: readonly [string, string][] = [["gpus", ""], ["gpus-per-node", " per node"], ["gpus-per-task", " per task"]];
  const found = kinds.find(([name]) => valueOf(options, name));
  return found ? `${readGpus(valueOf(options, found[0]))}${found[1]}` : "";
}

function Start(props: { gpus: string; verdict: Verdict<TestAnswer> | null; isReady: boolean; refusal: ApiError | null; remarks: readonly Remark[] }): JSX.Element {
  const error = props.refusal ?? props.verdict?.error;
  const answer = props.verdict?.answer;
  const general = said(props.remarks, "");
  const text = error && !error.remarks.length ? [error.message] : general;
  return (
    <div aria-live="polite">
      {error ? <p class="lead">{props.refusal ? "It was not submitted." : "It would be refused."}</p>
        : !props.isReady ? <p class="lead">Correct the lines that are named below.</p>
          : answer ? <p class="lead">{startText(answer, props.gpus)}</p> : <p class="empty">Asking the planner …</p>}
      {text.map((one) => <p key={one} class={`notice ${error ? "bad" : "wait"}`}>{one}</p>)}
      {answer?.job_submit_user_msg && <p class="notice">{answer.job_submit_user_msg}</p>}
    </div>
  );
}

/** An expected start this near is now. */
const NOW_US = 60_000_000;

function startText(answer: TestAnswer, gpus: string): ComponentChildren {
  const where = <>{gpus && `${gpus}, `}{count(answer.cpus, "CPU")} on <b>{answer.node_list}</b> in partition <b>{answer.partition}</b></>;
  if (answer.start_at_us <= 0) return "It would be accepted; no start is known yet.";
  if (answer.start_at_us <= Date.now() * 1000 + NOW_US) return <>Now: {where}.</>;
  return <><Time us={answer.start_at_us} isRelative />, {moment(answer.start_at_us)}: {where}.</>;
}

interface Submitted {
  readonly job_id: number;
  readonly job_submit_user_msg: string;
  readonly warnings?: Remark[];
}

function Send(props: { job: Record<string, unknown>; isReady: boolean; onRefused: (error: ApiError) => void; onAsk: () => void }): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [done, setDone] = useState<Submitted | null>(null);
  /** The same key until an answer is here: a submission whose answer was lost is not made twice. */
  const key = useRef({ text: "", job: props.job });
  const submit = async (): Promise<void> => {
    if (!key.current.text || key.current.job !== props.job) key.current = { text: newRequestKey(), job: props.job };
    setBusy(true);
    try {
      const answer = await change<Submitted>("POST", `${SLURM}/job/submit`, { job: props.job }, { "Idempotency-Key": key.current.text });
      key.current.text = "";
      draft.set(START);
      refresh();
      if (answer.warnings?.length || answer.job_submit_user_msg) setDone(answer);
      else location.hash = link(["jobs", answer.job_id]);
    } catch (problem) {
      const error = problem instanceof ApiError ? problem : new ApiError(0, String(problem));
      if (error.status >= 400 && error.status < 500) key.current.text = ""; // else it may be queued: a proxy's 502 says nothing of it
      props.onRefused(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      {done && (
        <div class="notice wait" role="status">
          <a href={link(["jobs", done.job_id])}>{`Job ${done.job_id}`}</a> is submitted. {done.job_submit_user_msg}
          {done.warnings?.map((one) => <p key={one.description}>{one.description}</p>)}
        </div>
      )}
      <div class="buttons">
        <button type="button" class="primary" disabled={isBusy || !props.isReady} onClick={() => void submit()}>Submit</button>
        <a class="button" href={link(["plan"], new URLSearchParams({ if: "job" }))} onClick={props.onAsk}>Whom it would delay</a>
      </div>
    </>
  );
}
