import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { ApiError, change, leave, OWN, read, SLURM } from "../api/client";
import { useAnswer } from "../api/live";
import type { PartitionsAnswer, SimulationAnswer } from "../api/types";
import { FIGURES, LINES, logText, POLICIES, policyTitle, RECORDED } from "../lib/simulation";
import { route, setQuery } from "../lib/route";
import { useStore } from "../lib/store";
import { count, duration } from "../lib/units";
import { Card, Empty } from "../parts/bits";
import { LineChart } from "../parts/chart";

/** What waits and use would have been under other policies: of the cluster's last days, or of a log. The daemon computes it. */

const PATH = `${OWN}/simulations`;
const DAYS = [1, 7, 30, 90] as const;
const ASK_MS = 1000;
const ACTIVE = ["READING", "RUNNING"];

type Machine = "header" | "cluster" | "processors";

interface Wish {
  readonly days: number;
  readonly file: File | null;
  readonly isLog: boolean;
  readonly partition: string;
  readonly machine: Machine;
  readonly processors: number;
  readonly policies: readonly string[];
}

const FIRST: Wish = { days: 7, file: null, isLog: false, partition: "", machine: "header", processors: 0, policies: ["easy", "easy-sjbf", "fcfs"] };

export function Simulator(): JSX.Element {
  const id = useStore(route).query.get("run") ?? "";
  const [error, setError] = useState("");
  const [isSending, setSending] = useState(false);
  const run = useRun(id, setError);
  const isActive = isSending || (run !== null && ACTIVE.includes(run.state));
  const begin = async (wish: Wish): Promise<void> => {
    setError("");
    setSending(true);
    try {
      const begun = await change<SimulationAnswer>("POST", PATH, await bodyOf(wish));
      setQuery({ run: begun.simulation_id });
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setSending(false);
    }
  };
  const stop = (): void => {
    change("DELETE", `${PATH}/${encodeURIComponent(id)}`).catch((problem: unknown) => setError(String(problem)));
  };
  return (
    <>
      <h1>Simulator</h1>
      <Wishes isActive={isActive} onBegin={(wish) => void begin(wish)} onStop={id && isActive && !isSending ? stop : null} />
      <div aria-live="polite">
        {error && <p class="notice bad" role="alert">{error}</p>}
        {isActive && <p class="notice">Simulating …</p>}
        {run?.state === "CANCELLED" && <p class="notice">{run.error ? `Ended: ${run.error}.` : "Cancelled."}</p>}
        {run?.state === "FAILED" && <p class="notice bad" role="alert">{run.error}</p>}
      </div>
      {run?.state === "DONE" ? <Result run={run} /> : !isActive && !run && <About />}
    </>
  );
}

/** A run, asked for until it has ended; who closes the page ends it. */
export function useRun(id: string, onError: (text: string) => void): SimulationAnswer | null {
  const [run, setRun] = useState<SimulationAnswer | null>(null);
  useEffect(() => {
    setRun(null);
    if (!id) return;
    const path = `${PATH}/${encodeURIComponent(id)}`;
    let timer = 0;
    let isActive = true;
    const go = (): void => {
      if (isActive) leave(path);
    };
    const ask = async (): Promise<void> => {
      try {
        const found = (await read<SimulationAnswer>(path))?.data ?? null;
        setRun(found);
        isActive = found !== null && ACTIVE.includes(found.state);
      } catch (problem) {
        isActive = problem instanceof ApiError && [0, 429, 503].includes(problem.status); // the daemon may be back soon
        if (!isActive) onError(problem instanceof Error ? problem.message : String(problem));
      }
      if (isActive) timer = window.setTimeout(() => void ask(), ASK_MS);
    };
    void ask();
    addEventListener("pagehide", go);
    return () => {
      clearTimeout(timer);
      isActive = false;
      removeEventListener("pagehide", go);
    };
  }, [id]);
  return run;
}

async function bodyOf(wish: Wish): Promise<unknown> {
  const { policies, partition } = wish;
  if (!wish.isLog) return { days: wish.days, partition, policies };
  if (!wish.file) throw new Error("Choose a file first.");
  const log = await logText(wish.file);
  const name = wish.file.name.slice(-200);
  if (wish.machine === "cluster") return { log, name, partition, policies, on_cluster: true };
  return { log, name, policies, processors: wish.machine === "processors" ? wish.processors : 0 };
}

function Wishes(props: { isActive: boolean; onBegin: (wish: Wish) => void; onStop: (() => void) | null }): JSX.Element {
  const [wish, setWish] = useState(FIRST);
  const set = (changes: Partial<Wish>): void => setWish((before) => ({ ...before, ...changes }));
  const partitions = useAnswer<PartitionsAnswer>(`${SLURM}/partitions`).data?.partitions.map((one) => one.name) ?? [];
  const hasNodes = !wish.isLog || wish.machine === "cluster";
  const offered = POLICIES.filter((one) => one.onNodes || !hasNodes);
  const policies = wish.policies.filter((name) => offered.some((one) => one.name === name));
  const submit = (event: Event): void => {
    event.preventDefault();
    props.onBegin({ ...wish, policies });
  };
  return (
    <Card title="What to simulate">
      <form onSubmit={submit}>
        <div class="fields">
          <label class="field">
            Jobs
            <select value={wish.isLog ? "log" : "days"} onChange={(event) => set({ isLog: event.currentTarget.value === "log" })}>
              <option value="days">This cluster's last days</option>
              <option value="log">A log of mine</option>
            </select>
          </label>
          {wish.isLog ? (
            <>
              <label class="field">
                Log
                <input type="file" onChange={(event) => set({ file: event.currentTarget.files?.[0] ?? null })} />
              </label>
              <label class="field">
                Machine
                <select value={wish.machine} onChange={(event) => set({ machine: event.currentTarget.value as Machine })}>
                  <option value="header">As the log's header says</option>
                  <option value="processors">Processors in one piece</option>
                  <option value="cluster">This cluster's nodes</option>
                </select>
              </label>
              {wish.machine === "processors" && (
                <label class="field">
                  Processors
                  <input type="number" min={1} max={100000000} required value={wish.processors || ""} onInput={(event) => set({ processors: Number(event.currentTarget.value) })} />
                </label>
              )}
            </>
          ) : (
            <label class="field">
              Submitted in the last
              <select value={`${wish.days}`} onChange={(event) => set({ days: Number(event.currentTarget.value) })}>
                {DAYS.map((days) => <option key={days} value={`${days}`}>{count(days, "day")}</option>)}
              </select>
            </label>
          )}
          {hasNodes && (
            <label class="field">
              Partition
              <select value={wish.partition} onChange={(event) => set({ partition: event.currentTarget.value })}>
                <option value="">All</option>
                {partitions.map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            </label>
          )}
        </div>
        <fieldset class="policies">
          <legend>Policies</legend>
          {offered.map((one) => (
            <label key={one.name}>
              <input
                type="checkbox" checked={policies.includes(one.name)}
                onChange={(event) => set({ policies: event.currentTarget.checked ? [...policies, one.name] : policies.filter((name) => name !== one.name) })}
              />
              <span>{one.title} <span class="faint">{one.about}</span></span>
            </label>
          ))}
        </fieldset>
        <div class="buttons">
          <button type="submit" class="primary" disabled={props.isActive || policies.length === 0 || policies.length > 6}>Simulate</button>
          {props.onStop && <button type="button" onClick={props.onStop}>Cancel</button>}
          {policies.length > 6 && <span class="faint">At most 6 policies.</span>}
        </div>
      </form>
    </Card>
  );
}

function About(): JSX.Element {
  return (
    <Card title="What it does">
      <p>
        Jobs run through the planner again in virtual time, under each policy, and their waits and the use of the machine are compared with each
        other and with what was recorded. Nothing on the cluster changes.
      </p>
      <p class="faint">
        A log is in Standard Workload Format, the output of <code>sacct -P</code> or <code>sacct --json</code>, or of the Philly, Helios or Alibaba
        GPU traces; gzip is fine. The last days have the jobs that <code>sacct</code> shows you. The machine is empty at the beginning.
      </p>
    </Card>
  );
}

// ---- the result

function Result({ run }: { run: SimulationAnswer }): JSX.Element {
  const left = [...run.left_out, ...run.doubts];
  const notes = [...run.notes, ...run.runs.flatMap((one) => one.notes.map((text) => `${policyTitle(one.policy)}: ${text}`))];
  return (
    <>
      <Card title={run.name} more={<span class="faint">{`${count(run.jobs, "job")} on ${count(run.processors, "CPU")}`}</span>}>
        <Figures run={run} />
        {left.length > 0 && <p class="faint small">{`Left out or odd: ${left.map((one) => `${one.reason}: ${one.count.toLocaleString("en")}`).join("; ")}.`}</p>}
        {notes.map((text) => <p key={text} class="faint small">{text}</p>)}
      </Card>
      <Card title="Over time" more={<span class="faint">since the first submission</span>}>
        <div class="charts">
          {Object.entries(LINES).map(([name, metric]) => {
            const series = run.runs.flatMap((one) => one.lines.filter((line) => line.name === name)
              .map((line) => ({ ...line, label: policyTitle(one.policy), maxima: line.means })));
            return series.length > 0 && <LineChart key={name} metric={metric} series={series} span={{ startUs: 0, intervalS: run.interval_s }} hasPeaks={false} />;
          })}
        </div>
      </Card>
    </>
  );
}

function Figures({ run }: { run: SimulationAnswer }): JSX.Element {
  if (run.runs.length === 0) return <Empty>There is no run.</Empty>;
  const value = (place: number, name: string): number | undefined => run.runs[place]?.figures.find((one) => one.name === name)?.value;
  const shown = FIGURES.filter((figure) => value(0, figure.name) !== undefined);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Figures by policy">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Figure</th>
            {run.runs.map((one) => <th key={one.policy} scope="col" class="number">{policyTitle(one.policy)}</th>)}
          </tr>
        </thead>
        <tbody>
          {shown.map((figure) => {
            const simulated = run.runs.flatMap((one, place) => (one.policy === RECORDED ? [] : [value(place, figure.name) ?? NaN]));
            const best = figure.less && new Set(simulated).size > 1 ? Math.min(...simulated) : NaN;
            return (
              <tr key={figure.name}>
                <th scope="row">{figure.title}</th>
                {run.runs.map((one, place) => {
                  const found = value(place, figure.name);
                  const text = found === undefined ? "–" : figure.text(found);
                  return <td key={one.policy} class="number" title={found === undefined ? "" : exact(figure.name, found)}>{found === best && one.policy !== RECORDED ? <b>{text}</b> : text}</td>;
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function exact(name: string, value: number): string {
  return name.endsWith("_s") ? `${value.toLocaleString("en")} s, ${duration(value)}` : value.toLocaleString("en", { maximumFractionDigits: 4 });
}
