import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { OWN, SLURM } from "../api/client";
import { useAnswer } from "../api/live";
import type { ForecastAnswer, JobsAnswer, NodesAnswer, ReservationsAnswer, WhyAnswer } from "../api/types";
import { toggled } from "../lib/hostlist";
import { isRunning } from "../lib/model";
import { type PlanItem, planRows } from "../lib/plan";
import { changedItems } from "../lib/planchange";
import { link, route, setQuery } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { count, fullTime, limit, moment } from "../lib/units";
import { Card, Facts, Pending, Time } from "../parts/bits";
import { Gantt } from "../parts/gantt";
import type { Column } from "../parts/grid";
import { Table } from "../parts/table";
import { askedOf, MovedTable, type Outcome, WhatIf, WhatIfButtons } from "./whatif";

/** What the planner intends: nodes by time, and for each job why it is there and then. */

type Planned = ForecastAnswer["jobs"][number];

/** Spans of the chart in seconds, by their word in the address. */
const SPANS: ReadonlyMap<string, readonly [number, string]> = new Map([
  ["6h", [6 * 3600, "6 hours"]], ["1d", [86400, "1 day"]], ["3d", [3 * 86400, "3 days"]], ["7d", [7 * 86400, "7 days"]],
]);
const DEFAULT_SPAN = "1d";
/** What is past has so much of the chart. */
const PAST_SHARE = 0.08;
/** The chart moves on in steps of this, so that it is not drawn each second. */
const STEP_S = 60;

const COLUMNS: readonly Column<Planned>[] = [
  { id: "job", title: "Job", value: (row) => row.job_id, text: (row) => row.shown_id, show: (row) => <a href={link(["jobs", row.shown_id])}>{row.shown_id}</a>, width: 6 },
  { id: "name", title: "Name", value: (row) => row.name, width: 11 },
  { id: "user", title: "User", value: (row) => row.user_name, width: 7 },
  { id: "start", title: "Planned start", value: (row) => row.start_at_us || Infinity, text: (row) => fullTime(row.start_at_us), show: (row) => <Time us={row.start_at_us} />, width: 9 },
  { id: "nodes", title: "Nodes", value: (row) => row.node_list, width: 10 },
  { id: "limit", title: "Time limit", value: (row) => row.time_limit_s, text: (row) => limit(row.time_limit_s), width: 7, isNumber: true },
  { id: "partition", title: "Partition", value: (row) => row.partition, width: 7 },
  { id: "priority", title: "Priority", value: (row) => row.priority, width: 7.5, isNumber: true },
  { id: "reason", title: "Waits for", value: (row) => row.reason, width: 9 },
];

function jobItem(kind: "run" | "plan", one: { shown_id: string; name: string; user_name: string; node_list: string; start_at_us: number; time_limit_s: number }): PlanItem {
  const start_s = one.start_at_us / 1e6;
  const end_s = one.time_limit_s > 0 ? start_s + one.time_limit_s : Infinity;
  return { kind, id: one.shown_id, label: `${one.shown_id} ${one.name} (${one.user_name})`, nodes: one.node_list, start_s, end_s };
}

/** The soonest starts that are shown; behind them the plan of a long queue is a wall of bars. */
const PLANNED_MAX = 1000;

/** The kinds of bars: of all plans, of a changed one, of one question. */
const LEGEND = [
  ["run", "runs, up to its limit", ""], ["plan", "planned", ""], ["reserved", "reserved", ""], ["was", "as it is now", "change"],
  ["moved", "as it would be", "change"], ["gone", "gone", "nodes"], ["comes", "the job that comes", "job"],
] as const;

/** All bars. A running job that is over its limit goes on until now. */
export function itemsOf(jobs: JobsAnswer, forecast: ForecastAnswer, reserved: ReservationsAnswer, now_s: number): PlanItem[] {
  const running = jobs.jobs.filter((one) => isRunning(one) && one.node_list).map((one) => {
    const item = jobItem("run", one);
    return { ...item, end_s: Math.max(item.end_s, now_s) };
  });
  const planned = forecast.jobs.filter((one) => one.start_at_us > 0 && one.node_list).map((one) => jobItem("plan", one));
  const closed = reserved.reservations.map((one): PlanItem => ({
    kind: "reserved", id: one.name, label: `Reservation ${one.name}`, nodes: one.node_list, start_s: one.start_time.number, end_s: one.end_time.number,
  }));
  return [...closed, ...running, ...planned];
}

export function Plan(): JSX.Element {
  const { query } = useStore(route);
  const jobs = useAnswer<JobsAnswer>(`${OWN}/jobs?states=RUNNING,SUSPENDED,CONFIGURING,COMPLETING`);
  const forecast = useAnswer<ForecastAnswer>(`${OWN}/forecast?order=planned_start_at_us&count=${PLANNED_MAX}`);
  const nodes = useAnswer<NodesAnswer>(`${SLURM}/nodes`);
  const reserved = useAnswer<ReservationsAnswer>(`${SLURM}/reservations`);
  const spanWord = query.get("span") ?? "";
  const [span_s] = SPANS.get(SPANS.has(spanWord) ? spanWord : DEFAULT_SPAN) ?? [86400];
  const now_s = Math.floor(Date.now() / 1000 / STEP_S) * STEP_S;
  const [from_s, to_s] = [now_s - span_s * PAST_SHARE, now_s + span_s];
  const asked = askedOf(query);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const change = asked ? outcome?.change : null;
  const filter = (query.get("node") ?? "").toLowerCase();
  const rows = useMemo(() => {
    if (!jobs.data || !forecast.data || !nodes.data || !reserved.data) return undefined;
    const names = nodes.data.nodes.map((one) => one.name).filter((one) => one.toLowerCase().includes(filter));
    const items = itemsOf(jobs.data, forecast.data, reserved.data, now_s);
    return planRows(names, change ? changedItems(items, change, outcome?.gone ?? "", outcome?.arrival ?? null) : items, from_s, to_s);
  }, [jobs.data, forecast.data, nodes.data, reserved.data, now_s, span_s, filter, change, outcome]);
  const error = jobs.error ?? forecast.error ?? nodes.error ?? reserved.error;
  if (!rows || !forecast.data) return <><h1>Plan</h1><Pending error={error} what="the plan" /></>;
  const planned = forecast.data.jobs.filter((one) => one.start_at_us > 0);
  const label = `${count(rows.length, "node")} from ${moment(from_s * 1e6)} to ${moment(to_s * 1e6)}, ` +
    `${count(planned.length, "planned start")}. The table below has the same.`;
  return (
    <>
      <header class="page">
        <h1>Plan</h1>
        <WhatIfButtons asked={asked} />
        <span class="grow" />
        <input type="search" aria-label="Nodes" placeholder="Nodes" value={query.get("node") ?? ""} onInput={(event) => setQuery({ node: event.currentTarget.value })} />
        <select aria-label="Span" value={SPANS.has(spanWord) ? spanWord : DEFAULT_SPAN} onChange={(event) => setQuery({ span: event.currentTarget.value })}>
          {[...SPANS].map(([word, [, title]]) => <option key={word} value={word}>{title}</option>)}
        </select>
      </header>
      <WhatIf query={query} onOutcome={setOutcome} />
      <Card title="Nodes by time" more={<Legend isChanged={change != null} asked={asked} />}>
        {rows.length ? (
          <Gantt
            rows={rows} from_s={from_s} to_s={to_s} now_s={now_s} chosen={query.get("chosen") ?? ""} label={label}
            choose={(item) => setQuery({ chosen: item.id, kind: item.kind })}
            {...(asked === "nodes" && { chooseNode: (node: string) => setQuery({ gone: toggled(query.get("gone") ?? "", node) }) })}
          />
        ) : <p class="empty">{filter ? "No node has this in its name." : "There are no nodes."}</p>}
      </Card>
      {(forecast.data.total ?? 0) > PLANNED_MAX && (
        <p class="faint">{`The soonest ${PLANNED_MAX.toLocaleString("en")} planned starts of ${count(forecast.data.total ?? 0, "waiting job")}.`}</p>
      )}
      <Chosen id={query.get("chosen") ?? ""} kind={query.get("kind") ?? ""} planned={planned} />
      {asked ? change && <MovedTable change={change} query={query} /> : <Table
        label="Planned starts" rows={forecast.data.jobs} columns={COLUMNS} query={query} order="start" rowKey={(row) => String(row.job_id)}
        open={(row) => link(["jobs", row.shown_id])} empty={query.get("q") ? "No row passes this filter." : "No job waits."}
      />}
    </>
  );
}

function Legend({ isChanged, asked }: { isChanged: boolean; asked: string }): JSX.Element {
  return (
    <span class="faint small gantt-legend">
      {LEGEND.filter(([, , of]) => !of || (isChanged && (of === "change" || of === asked))).map(([kind, text]) => (
        <span key={kind}><i class={kind} aria-hidden="true" /> {text}</span>
      ))}
    </span>
  );
}

/** Why here, why then: the planner's own words for the bar that was clicked. */
function Chosen({ id, kind, planned }: { id: string; kind: string; planned: readonly Planned[] }): JSX.Element | null {
  const isPlanned = ["plan", "was", "moved"].includes(kind) && id !== "";
  const why = useAnswer<WhyAnswer>(isPlanned ? `${OWN}/jobs/${encodeURIComponent(id)}/why` : "");
  const one = planned.find((job) => job.shown_id === id);
  if (!id || kind === "gone" || kind === "comes") return null;
  const close = <button type="button" onClick={() => setQuery({ chosen: "", kind: "" })}>Close</button>;
  if (kind === "reserved") return <Card title={`Reservation ${id}`} more={close}><p><a href={link(["reservations"], new URLSearchParams({ q: id }))}>Show it</a></p></Card>;
  const title = <a href={link(["jobs", id])}>{`To job ${id}`}</a>;
  if (!isPlanned || !one) return <Card title={`Job ${id}`} more={close}><p>{title}</p></Card>;
  return (
    <Card title={`Why job ${id} is there and then`} more={close}>
      {why.data ? (
        <>
          <p class="lead">{`${words(why.data.why.reason)}. ${why.data.why.sentence}`}</p>
          <Facts
            rows={[
              ["Planned start", <Time key="t" us={one.start_at_us} />], ["Nodes", one.node_list], ["Time limit", limit(one.time_limit_s)],
              ["In front of it", count(why.data.why.in_front.length + why.data.why.in_front_more, "job")],
            ]}
          />
          <p>{title}</p>
        </>
      ) : <Pending error={why.error} what="the reason" />}
    </Card>
  );
}
