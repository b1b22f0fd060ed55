import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { ApiError, change, OWN, read } from "../api/client";
import { refresh } from "../api/live";
import type { PolicyAnswer, PolicyAppliedAnswer, PolicyPlanAnswer, SimulationAnswer } from "../api/types";
import type { LineRemark } from "../lib/lint";
import { policyRemarks, signOf } from "../lib/policy";
import { link } from "../lib/route";
import { count, duration } from "../lib/units";
import { Card, Chip, Dialog, Empty, Pending } from "../parts/bits";
import { ScriptEditor } from "../parts/editor";
import { useRun } from "./simulator";

/** The policy of the cluster as one text: what a change of it would do, the waits that it would have caused, and making it. */

const PATH = `${OWN}/policy`;
const DAYS = [1, 7, 30] as const;
const ACTIVE = ["READING", "RUNNING"];
/** Names of what the text does not name that are shown. */
const UNNAMED_SHOWN = 10;

/** What is planned: a text, and whether what it does not name goes. */
interface Wish {
  readonly policy: string;
  readonly prune: boolean;
}

interface Planned {
  readonly wish: Wish;
  readonly plan: PolicyPlanAnswer;
}

export function PolicyPage(): JSX.Element {
  const [error, setError] = useState<ApiError | null>(null);
  const [text, setText] = useState<string | null>(null);
  const load = (): void => {
    read<PolicyAnswer>(PATH).then((found) => setText(found?.data.policy ?? ""), (problem: unknown) => {
      if (problem instanceof ApiError) setError(problem);
    });
  };
  useEffect(load, []);
  return (
    <>
      <nav class="crumbs" aria-label="Where this page is"><a href={link(["accounts"])}>Accounts</a> / Policy</nav>
      <h1>Policy</h1>
      {text === null ? <Pending error={error} what="the policy" /> : <Editor text={text} onLoad={load} />}
    </>
  );
}

function Editor({ text, onLoad }: { text: string; onLoad: () => void }): JSX.Element {
  const [wish, setWish] = useState<Wish>({ policy: text, prune: false });
  const [planned, setPlanned] = useState<Planned | null>(null);
  const [remarks, setRemarks] = useState<readonly LineRemark[]>([]);
  const [said, setSaid] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => setWish((before) => ({ ...before, policy: text })), [text]);
  const edit = (changes: Partial<Wish>): void => {
    setWish((before) => ({ ...before, ...changes }));
    setRemarks([]);
    setSaid("");
  };
  const plan = async (): Promise<void> => {
    setBusy(true);
    setSaid("");
    try {
      setPlanned({ wish, plan: await change<PolicyPlanAnswer>("POST", `${PATH}/plan`, wish) });
      setRemarks([]);
    } catch (problem) {
      setPlanned(null);
      const found = problem instanceof ApiError ? policyRemarks(problem.remarks) : [];
      setRemarks(found.length ? found : [{ line: 0, column: 0, severity: "error", text: problem instanceof Error ? problem.message : String(problem), fix: "" }]);
    } finally {
      setBusy(false);
    }
  };
  const applied = (changes: number): void => {
    setPlanned(null);
    setSaid(`Done: ${count(changes, "change")} in one transaction.`);
    refresh();
  };
  const isCurrent = planned?.wish.policy === wish.policy && planned.wish.prune === wish.prune;
  return (
    <>
      <Card title="Accounts, users, QOS, limits and shares" class="fill">
        <p class="faint small">
          The text names what there should be, with the keys of sacctmgr. Each entity that it names has what it says and nothing else; those that it
          does not name stay. Nothing is changed by a plan.
        </p>
        <ScriptEditor label="Policy" script={wish.policy} remarks={remarks} onInput={(policy) => edit({ policy })} />
        <div class="choose">
          <button type="button" class="primary" disabled={isBusy} onClick={() => void plan()}>Plan</button>
          <button type="button" onClick={() => { edit({ policy: text }); setPlanned(null); onLoad(); }}>Start again from the cluster</button>
          <label><input type="checkbox" checked={wish.prune} onChange={(event) => edit({ prune: event.currentTarget.checked })} /> Remove what it does not name</label>
        </div>
        <div aria-live="polite">{said && <p class="notice good">{said}</p>}</div>
      </Card>
      {planned && (isCurrent ? <Plan planned={planned} onApplied={applied} /> : <p class="notice wait">The text has changed since it was planned: plan it again.</p>)}
    </>
  );
}

// ---- what it would change

function Plan({ planned, onApplied }: { planned: Planned; onApplied: (changes: number) => void }): JSX.Element {
  const { steps, refusal, not_in_the_file: unnamed } = planned.plan;
  const [isAsked, setAsked] = useState(false);
  const apply = async (): Promise<void> => {
    const body = { ...planned.wish, fingerprint: planned.plan.fingerprint };
    onApplied((await change<PolicyAppliedAnswer>("POST", `${PATH}/apply`, body)).changes);
  };
  const more = unnamed.length > UNNAMED_SHOWN ? ` and ${unnamed.length - UNNAMED_SHOWN} more` : "";
  return (
    <>
      <Card
        title="What it would change"
        more={steps.length > 0 && !refusal && <button type="button" class="primary" onClick={() => setAsked(true)}>Apply</button>}
      >
        {refusal && <p class="notice bad" role="alert">{`The controller would not make it for you. ${refusal}`}</p>}
        {steps.length ? <Steps steps={steps} /> : <Empty>The cluster is as the text says: nothing to change.</Empty>}
        {unnamed.length > 0 && <p class="faint small">{`Not in the text, unchanged: ${unnamed.slice(0, UNNAMED_SHOWN).join(", ")}${more}.`}</p>}
      </Card>
      {steps.length > 0 && <Replay wish={planned.wish} />}
      {isAsked && (
        <Dialog title="Apply this policy?" confirm={`Make ${count(steps.length, "change")}`} isDangerous={steps.some((one) => one.sign === "-")} onClose={() => setAsked(false)} onConfirm={apply}>
          <p>All of it is made, or nothing. If the cluster is no longer as this plan shows it, nothing is.</p>
        </Dialog>
      )}
    </>
  );
}

function Steps({ steps }: { steps: PolicyPlanAnswer["steps"] }): JSX.Element {
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Changes">
      <table class="plain stack changes">
        <thead><tr><th scope="col">Change</th><th scope="col">Of</th><th scope="col">From what to what</th></tr></thead>
        <tbody>
          {steps.map((one) => {
            const [word, tone] = signOf(one.sign);
            return (
              <tr key={`${one.sign} ${one.what}`}>
                <td><Chip tone={tone}>{word}</Chip></td>
                <th scope="row">{one.what}</th>
                <td>
                  {one.changes.map(({ name, before, after }) => (
                    <div key={name}>{name}: {one.sign === "~" && <><del>{before || "none"}</del> → </>}<ins>{after || "none"}</ins></div>
                  ))}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

// ---- what it would have done

function Replay({ wish }: { wish: Wish }): JSX.Element {
  const [days, setDays] = useState(7);
  const [id, setId] = useState("");
  const [error, setError] = useState("");
  const run = useRun(id, setError);
  const isActive = id !== "" && !error && (run === null || ACTIVE.includes(run.state));
  const begin = async (): Promise<void> => {
    setError("");
    setId("");
    try {
      setId((await change<SimulationAnswer>("POST", `${PATH}/replay`, { ...wish, days })).simulation_id);
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
    }
  };
  return (
    <Card title="What it would have done">
      <p class="faint small">
        The jobs of the last days that you may see, and those in the queue, run twice through the scheduler in virtual time: under the present policy and
        under this one. It is a comparison and no forecast: both begin with an empty cluster and no usage.
      </p>
      <div class="choose">
        <label>Jobs of the last <select value={`${days}`} onChange={(event) => setDays(Number(event.currentTarget.value))}>
          {DAYS.map((one) => <option key={one} value={`${one}`}>{count(one, "day")}</option>)}
        </select></label>
        <button type="button" disabled={isActive} onClick={() => void begin()}>Replay</button>
      </div>
      <div aria-live="polite">
        {isActive && <p class="notice">Replaying …</p>}
        {(error || (run && run.error)) && <p class="notice bad" role="alert">{error || run?.error}</p>}
      </div>
      {run?.state === "DONE" && (run.waits.length ? <Waits run={run} /> : <Empty>There was no job to replay.</Empty>)}
    </Card>
  );
}

type Wait = SimulationAnswer["waits"][number];
type Figure = readonly [string, (row: Wait) => number | null, (row: Wait) => number | null, (value: number) => string];

const FIGURES: readonly Figure[] = [
  ["Mean wait", (row) => row.mean_s_before, (row) => row.mean_s_after, duration],
  ["Median wait", (row) => row.median_s_before, (row) => row.median_s_after, duration],
  ["95 % wait less than", (row) => row.p95_s_before, (row) => row.p95_s_after, duration],
  ["Refused", (row) => row.refused_before, (row) => row.refused_after, String],
  ["Still waiting", (row) => row.waiting_before, (row) => row.waiting_after, String],
];

function Waits({ run }: { run: SimulationAnswer }): JSX.Element {
  const text = (value: number | null, words: (value: number) => string): string => (value === null ? "–" : words(value));
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Waits by account">
      <table class="plain changes">
        <thead><tr><th scope="col">Account</th><th scope="col">Jobs</th>{FIGURES.map(([title]) => <th key={title} scope="col">{title}</th>)}</tr></thead>
        <tbody>
          {run.waits.map((row) => (
            <tr key={row.account}>
              <th scope="row">{row.account}</th>
              <td>{row.jobs.toLocaleString("en")}</td>
              {FIGURES.map(([title, before, after, words]) => (
                <td key={title}>{text(before(row), words)}{before(row) !== after(row) && <> → <b>{text(after(row), words)}</b></>}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
