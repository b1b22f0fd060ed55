import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { EfficiencyAnswer, ProfileAnswer, StepsAnswer } from "../api/types";
import { COLOURS } from "../lib/chart";
import { expand } from "../lib/hostlist";
import { HAS_ENDED } from "../lib/states";
import { bytes, count, duration, percent } from "../lib/units";
import { Card, Empty, Pending } from "../parts/bits";
import { ProfileCharts } from "../parts/profile";
import { type ShowOutput, type Step, StepTree } from "./jobtree";

/** What a job does and has done: its steps, what they used, and of what they had. Figures of running steps are of their nodes. */

type Figures = EfficiencyAnswer["figures"];

/** Nodes are asked about running steps: seldom, since they measure every 15 s. */
const RUNNING_MS = 15_000;
const ENDED_MS = 60_000;
const STEPS_MS = 2_000;
const NODES_MAX = 1_024;

export function JobUse({ id, state, showOutput }: { id: string; state: string; showOutput?: ShowOutput }): JSX.Element {
  const path = `${OWN}/jobs/${encodeURIComponent(id)}`;
  const hasEnded = HAS_ENDED.has(state);
  const steps = useAnswer<StepsAnswer>(`${path}/steps`, hasEnded ? ENDED_MS : STEPS_MS);
  const list = steps.data?.steps ?? [];
  return (
    <>
      <Efficiency path={path} hasEnded={hasEnded} />
      <Card title="Steps" class="wide" more={list.length > 0 && <span class="faint small">{count(list.length, "step")}</span>}>
        {steps.data ? <StepTree path={path} steps={list} everyMs={hasEnded ? ENDED_MS : RUNNING_MS} showOutput={showOutput} /> : <Pending error={steps.error} what="the steps" />}
        <Warnings list={steps.data?.warnings} />
      </Card>
      {list.length > 0 && <Profile path={path} steps={list} hasEnded={hasEnded} />}
    </>
  );
}

function Warnings({ list }: { list: readonly { description: string }[] | undefined }): JSX.Element | null {
  if (!list?.length) return null;
  const texts = [...new Set(list.map((one) => one.description))];
  return (
    <p class="notice wait">
      {texts.slice(0, 3).join(" · ")}{texts.length > 3 && ` · and ${texts.length - 3} more`}
    </p>
  );
}

// ---- efficiency

function Efficiency({ path, hasEnded }: { path: string; hasEnded: boolean }): JSX.Element {
  const answer = useAnswer<EfficiencyAnswer>(`${path}/efficiency`, hasEnded ? ENDED_MS : RUNNING_MS);
  const found = answer.data;
  return (
    <Card title="Efficiency" class="wide" more={found && !hasEnded && <span class="faint small">so far</span>}>
      {!found ? <Pending error={answer.error} what="the efficiency" /> : found.figures.elapsed_s === null ? <Empty>It has not run yet.</Empty> : (
        <>
          {hasEnded || found.figures.cpu_used_s || found.figures.memory_used_bytes
            ? <div class="meters">{metersOf(found.figures).map((one) => <Meter key={one.title} {...one} />)}</div>
            : <Empty>Nothing is measured yet.</Empty>}
          {found.advice.length > 0 && (
            <div class="advice">
              <h3>Advice</h3>
              <ul>{found.advice.map((text) => <li key={text}>{text}</li>)}</ul>
            </div>
          )}
          <Warnings list={found.warnings} />
        </>
      )}
    </Card>
  );
}

interface Measure {
  readonly title: string;
  readonly share: number;
  readonly text: string;
}

function metersOf(of: Figures): Measure[] {
  const made: Measure[] = [];
  const add = (title: string, share: number | null, text: string): void => {
    if (share !== null) made.push({ title, share, text });
  };
  add("CPU", of.cpu_percent, `${duration(of.cpu_used_s ?? 0)} of ${duration(of.cpu_allocated_s ?? 0)} on ${count(of.cores ?? 0, "core")}`);
  add("Memory", of.memory_percent, `${bytes(of.memory_used_bytes ?? 0)} of ${bytes(of.memory_allocated_bytes ?? 0)}`);
  add("Time", of.time_percent, `${duration(of.elapsed_s ?? 0)} of ${duration(of.time_limit_s ?? 0)}`);
  add("GPU", of.gpu_percent, `${count(of.gpus ?? 0, "GPU")}${of.gpu_idle_s === null ? "" : `, idle for ${duration(of.gpu_idle_s)} of ${duration(of.gpu_profiled_s ?? 0)}`}`);
  add("GPU memory", of.gpu_memory_percent, `${bytes(of.gpu_memory_used_bytes ?? 0)} of ${bytes(of.gpu_memory_allocated_bytes ?? 0)}`);
  return made;
}

function Meter({ title, share, text }: Measure): JSX.Element {
  const part = Math.max(0, Math.min(share, 100));
  return (
    <div class="meter">
      <div><span class="faint small">{title}</span> <b class="big">{percent(share)}</b></div>
      <div class="bar" aria-hidden="true">
        <span class={`part ${share > 100 ? "wait" : "run"}`} style={{ flexGrow: part }} />
        <span style={{ flexGrow: 100 - part }} />
      </div>
      <span class="faint small">{text}</span>
    </div>
  );
}

// ---- profile

/** The step that is shown first: what ran last of those that srun made, else the script. */
function firstOf(steps: readonly Step[]): Step | undefined {
  return [...steps].reverse().find((one) => /^\d+$/.test(one.step)) ?? steps.find((one) => one.step === "batch") ?? steps[0];
}

/** Tasks of one chart: as many as it has colours. */
export function taskParts(ranks: readonly number[]): number[][] {
  return Array.from({ length: Math.ceil(ranks.length / COLOURS) }, (_, part) => ranks.slice(part * COLOURS, (part + 1) * COLOURS));
}

function Profile({ path, steps, hasEnded }: { path: string; steps: readonly Step[]; hasEnded: boolean }): JSX.Element {
  const [chosen, setChosen] = useState({ step: "", node: "", part: "" });
  const offered = steps.filter((one) => one.step !== "extern");
  const step = offered.find((one) => one.step === chosen.step) ?? firstOf(offered);
  const nodes = step ? expand(step.node_list, NODES_MAX) ?? [] : [];
  const node = nodes.includes(chosen.node) ? chosen.node : nodes[0] ?? "";
  const query = new URLSearchParams({ step: step?.step ?? "", nodes: node, tasks: chosen.part });
  const answer = useAnswer<ProfileAnswer>(step ? `${path}/profile?${query.toString()}` : "", hasEnded ? ENDED_MS : RUNNING_MS);
  const profile = answer.data?.profiles[0];
  const parts = taskParts(profile?.tasks.map((one) => one.rank) ?? []);
  return (
    <Card
      title="Use over time" class="wide"
      more={step && (
        <span class="choose">
          {offered.length > 1 && (
            <label>Step <select aria-label="Step" value={step.step} onChange={(event) => setChosen({ step: event.currentTarget.value, node, part: "" })}>
              {offered.map((one) => <option key={one.step} value={one.step}>{one.name && one.name !== one.step ? `${one.step} ${one.name.slice(0, 40)}` : one.step}</option>)}
            </select></label>
          )}
          {nodes.length > 1 && (
            <label>Node <select aria-label="Node" value={node} onChange={(event) => setChosen({ step: step.step, node: event.currentTarget.value, part: "" })}>
              {nodes.map((one) => <option key={one}>{one}</option>)}
            </select></label>
          )}
          {parts.length > 0 && (
            <label>Of <select aria-label="Of" value={chosen.part} onChange={(event) => setChosen({ step: step.step, node, part: event.currentTarget.value })}>
              <option value="">all tasks together</option>
              {parts.map((ranks) => <option key={ranks[0]} value={ranks.join()}>{`each of tasks ${ranks[0] ?? ""} to ${ranks.at(-1) ?? ""}`}</option>)}
            </select></label>
          )}
        </span>
      )}
    >
      {!answer.data ? <Pending error={answer.error} what="the profile" /> : !profile ? answer.data.warnings.length === 0 && (
        <Empty>{hasEnded ? "There is no profile: it was too short to be measured, none was wanted, or it was purged."
          : "There is no profile yet: the first point is there after an interval, 15 s unless the job or the site has another."}</Empty>
      ) : <ProfileCharts profile={profile} />}
      <Warnings list={answer.data?.warnings} />
    </Card>
  );
}
