import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { type ApiError, OWN, type Remark } from "../api/client";
import { useAnswer } from "../api/live";
import type { MovedJob, PlanChangeReply, PlanWithAnswer, PlanWithoutAnswer } from "../api/types";
import { minutes } from "../lib/model";
import { valueOf, withOption } from "../lib/options";
import { type Arrival, CHANGE_WORDS, delay, delayText, leftOut, summary } from "../lib/planchange";
import { link, setQuery } from "../lib/route";
import { useStore } from "../lib/store";
import { count, fullTime, moment } from "../lib/units";
import { Card, Chip, Pending, Time } from "../parts/bits";
import type { Column } from "../parts/grid";
import { Table } from "../parts/table";
import { draft, useDrafted, useVerdict } from "./jobdraft";
import { Fields, said } from "./jobfields";

/** "If node X goes", "if this job came": asked of the planner with the present queue; nothing is changed. */

/** Both plans of a long queue are work for the controller: they are asked again this often at most. */
const EVERY_MS = 15_000;
const FIELDS = ["partition", "nodes", "ntasks", "cpus-per-task", "mem", "gpus", "time", "array"];

/** What is asked, in the address: `if=nodes&gone=n[1-2]&jobs=run_on`, `if=job`. */
export type Asked = "" | "nodes" | "job";

export interface Outcome {
  readonly change: PlanChangeReply | null;
  readonly gone: string;
  readonly arrival: Arrival | null;
}

export function askedOf(query: URLSearchParams): Asked {
  const word = query.get("if");
  return word === "nodes" || word === "job" ? word : "";
}

/** The two buttons that begin it. */
export function WhatIfButtons({ asked }: { asked: Asked }): JSX.Element {
  const toggle = (word: Asked): void => {
    setQuery({ if: asked === word ? "" : word, gone: "", jobs: "", chosen: "", kind: "", sort: "", q: "", cols: "" });
  };
  return (
    <>
      <button type="button" class={asked === "nodes" ? "on" : ""} aria-pressed={asked === "nodes"} onClick={() => toggle("nodes")}>If nodes go</button>
      <button type="button" class={asked === "job" ? "on" : ""} aria-pressed={asked === "job"} onClick={() => toggle("job")}>If a job came</button>
    </>
  );
}

export function WhatIf({ query, onOutcome }: { query: URLSearchParams; onOutcome: (outcome: Outcome | null) => void }): JSX.Element | null {
  const asked = askedOf(query);
  useEffect(() => () => onOutcome(null), [asked]);
  if (asked === "nodes") return <Without query={query} onOutcome={onOutcome} />;
  return asked === "job" ? <With onOutcome={onOutcome} /> : null;
}

function Without({ query, onOutcome }: { query: URLSearchParams; onOutcome: (outcome: Outcome | null) => void }): JSX.Element {
  const gone = query.get("gone") ?? "";
  const jobs = query.get("jobs") === "run_on" ? "run_on" : "end";
  const [text, setText] = useState(gone);
  useEffect(() => setText(gone), [gone]);
  const answer = useAnswer<PlanWithoutAnswer>(gone ? `${OWN}/plan/without?${new URLSearchParams({ nodes: gone, jobs })}` : "", EVERY_MS);
  const change = answer.data?.change ?? null;
  useEffect(() => onOutcome({ change, gone: answer.error ? "" : gone, arrival: null }), [change, gone, answer.error]);
  return (
    <Card title="If nodes go" class="what-if">
      <form
        class="tools" onSubmit={(event) => {
          event.preventDefault();
          setQuery({ gone: text.trim() });
        }}
      >
        <input
          class="search" aria-label="Nodes that go" placeholder="Nodes, as n[1-4,7]" value={text} autocomplete="off" spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select aria-label="Their jobs" value={jobs} onChange={(event) => setQuery({ jobs: event.currentTarget.value })}>
          <option value="end">They fail: their jobs end or are requeued</option>
          <option value="run_on">They are drained: their jobs run on</option>
        </select>
        <button type="submit" class="primary">Ask the planner</button>
        {gone && <button type="button" onClick={() => setQuery({ gone: "" })}>Clear</button>}
      </form>
      {!gone ? <p class="empty">Type the names of nodes, or click them in the chart.</p>
        : change ? <Changes change={change} nothing="No job would end, and no planned start would move." /> : <Pending error={answer.error} what="both plans" />}
    </Card>
  );
}

function With({ onOutcome }: { onOutcome: (outcome: Outcome | null) => void }): JSX.Element {
  const script = useStore(draft);
  const { job, options, problems, usual, isReady } = useDrafted(script, "");
  const verdict = useVerdict<PlanWithAnswer>("plan/with", isReady ? job : null);
  const answer = verdict?.answer ?? null;
  const limit_s = (minutes(valueOf(options, "time")) ?? -1) * 60;
  useEffect(() => {
    const arrival = answer && { start_at_us: answer.start_at_us, node_list: answer.node_list, limit_s };
    onOutcome({ change: answer?.change ?? null, gone: "", arrival });
  }, [answer]);
  const remarks: readonly Remark[] = [...(verdict?.error?.remarks ?? []), ...(answer?.warnings ?? [])];
  return (
    <Card title="If a job came" class="what-if" more={<a href={link(["submit"])}>Its script</a>}>
      <Fields
        options={options} usual={usual} remarks={remarks} only={FIELDS}
        onEdit={(name, value) => draft.set(withOption(draft.value, name, value))}
      />
      <div aria-live="polite" class="said">
        {!isReady ? <Problems texts={problems.map((one) => `Line ${one.line + 1} of its script: ${one.text}`)} />
          : verdict?.error ? <Refused error={verdict.error} remarks={remarks} />
            : answer ? <><p class="lead">{startText(answer)}</p><Changes change={answer.change} nothing="It would delay nobody." /></>
              : <p class="empty">Asking the planner …</p>}
      </div>
    </Card>
  );
}

function Problems({ texts }: { texts: readonly string[] }): JSX.Element {
  return <>{texts.map((text) => <p key={text} class="notice bad" role="alert">{text}</p>)}</>;
}

function Refused({ error, remarks }: { error: ApiError; remarks: readonly Remark[] }): JSX.Element {
  const texts = error.remarks.length ? said(remarks, "") : [error.message];
  return <><p class="lead">It would be refused.</p><Problems texts={texts} /></>;
}

function startText(answer: PlanWithAnswer): ComponentChildren {
  if (answer.start_at_us <= 0) return "It would be accepted; no start is known.";
  const where = <>on <b>{answer.node_list}</b> in partition <b>{answer.partition}</b></>;
  if (answer.start_at_us <= Date.now() * 1000 + 60e6) return <>It would start now {where}.</>;
  return <>It would start <Time us={answer.start_at_us} isRelative />, {moment(answer.start_at_us)}, {where}.</>;
}

const COLUMNS: readonly Column<MovedJob>[] = [
  { id: "job", title: "Job", value: (row) => row.job_id, text: (row) => row.shown_id, show: (row) => <a href={link(["jobs", row.shown_id])}>{row.shown_id}</a>, width: 6 },
  { id: "name", title: "Name", value: (row) => row.name, width: 10 },
  { id: "user", title: "User", value: (row) => row.user_name, width: 7 },
  { id: "change", title: "Change", value: (row) => [...CHANGE_WORDS.keys()].indexOf(row.change), text: changeWord, show: changeChip, width: 8 },
  { id: "delay", title: "Delay", value: (row) => delay(row) ?? Infinity, text: delayText, show: (row) => delayText(row) || <span class="faint">–</span>, width: 6.5, isNumber: true },
  { id: "before", title: "Planned now", value: (row) => row.before_at_us || Infinity, text: (row) => fullTime(row.before_at_us), show: (row) => <Time us={row.before_at_us} />, width: 8 },
  { id: "on", title: "Nodes now", value: (row) => row.before_node_list, width: 8 },
  { id: "after", title: "Planned then", value: (row) => row.after_at_us || Infinity, text: (row) => fullTime(row.after_at_us), show: (row) => <Time us={row.after_at_us} />, width: 8 },
  { id: "there", title: "Nodes then", value: (row) => row.after_node_list, width: 8 },
];
function changeWord(row: MovedJob): string {
  return CHANGE_WORDS.get(row.change)?.[0] ?? row.change;
}

function changeChip(row: MovedJob): JSX.Element {
  return <Chip tone={CHANGE_WORDS.get(row.change)?.[1] ?? "off"}>{changeWord(row)}</Chip>;
}

function Changes({ change, nothing }: { change: PlanChangeReply; nothing: string }): JSX.Element {
  return (
    <>
      <p class="lead">{summary(change) ? `${summary(change)}.` : nothing}</p>
      {leftOut(change).map((text) => <p key={text} class="faint">{text}</p>)}
      <p class="faint small">{`As of ${moment(change.now_us)}, of ${count(change.compared, "waiting job")} that the planner places. Nothing is changed.`}</p>
    </>
  );
}

/** Jobs that move, the worst first. */
export function MovedTable({ change, query }: { change: PlanChangeReply; query: URLSearchParams }): JSX.Element | null {
  if (!change.jobs.length) return null;
  return (
    <Table
      label="Jobs that would move" rows={change.jobs} columns={COLUMNS} query={query} order="" rowKey={(row) => String(row.job_id)}
      open={(row) => link(["jobs", row.shown_id])} empty="No row passes this filter."
    />
  );
}
