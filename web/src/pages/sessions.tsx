import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { ApiError, change, OWN, SLURM } from "../api/client";
import { refresh, useAnswer } from "../api/live";
import type { PartitionsAnswer, SessionsAnswer } from "../api/types";
import { link } from "../lib/route";
import { count, duration } from "../lib/units";
import { Card, Dialog, Empty, JobState, Pending, Time } from "../parts/bits";

/** Notebooks and terminals that are jobs: one form, and what can be done with each. */

/** That a program has started makes no event. */
function isStarting(answer: SessionsAnswer): boolean {
  return answer.sessions.some((one) => one.state === "RUNNING" && !one.is_ready);
}
type SessionRow = SessionsAnswer["sessions"][number];
const HAS_ENDED = new Set(["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"]);

interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly isNumber: boolean;
}

const FIELDS: readonly Field[] = [
  { name: "time_minutes", label: "Time, minutes", hint: "", isNumber: true },
  { name: "cpus", label: "CPUs", hint: "1", isNumber: true },
  { name: "memory_mb", label: "Memory, MB", hint: "default", isNumber: true },
  { name: "gpus", label: "GPUs", hint: "none, or as 1 or h100:1", isNumber: false },
  { name: "partition", label: "Partition", hint: "default", isNumber: false },
  { name: "account", label: "Account", hint: "default", isNumber: false },
  { name: "qos", label: "QOS", hint: "default", isNumber: false },
  { name: "reservation", label: "Reservation", hint: "none", isNumber: false },
  { name: "idle_minutes", label: "Stop when idle, minutes", hint: "", isNumber: true },
  { name: "work_dir", label: "Working directory", hint: "home", isNumber: false },
];

function textOf(problem: unknown): string {
  return problem instanceof ApiError ? problem.message : String(problem);
}

export function Sessions(): JSX.Element {
  const answer = useAnswer<SessionsAnswer>(`${OWN}/sessions`, 0, isStarting);
  const found = answer.data?.sessions ?? [];
  const shown = [...found].sort((one, other) => other.job_id - one.job_id);
  return (
    <>
      <header class="page"><h1>Sessions</h1></header>
      {!answer.data ? <Pending error={answer.error} what="sessions" /> : (
        <div class="columns">
          <Card title="Your sessions" class="wide">
            {shown.length === 0 ? <Empty>You have no session. Start a notebook or a terminal below: it is a job like others.</Empty> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Your sessions">
                <table class="plain stack">
                  <thead>
                    <tr>
                      <th scope="col">Job</th><th scope="col">Kind</th><th scope="col">State</th><th scope="col">Node</th>
                      <th scope="col">Started</th><th scope="col">Ends</th><th scope="col">Idle</th><th scope="col">What to do</th>
                    </tr>
                  </thead>
                  <tbody>{shown.map((one) => <Row key={one.job_id} one={one} title={titleOf(answer.data, one.kind)} />)}</tbody>
                </table>
              </div>
            )}
          </Card>
          <Start kinds={answer.data.kinds} />
        </div>
      )}
    </>
  );
}

function titleOf(answer: SessionsAnswer | undefined, kind: string): string {
  return answer?.kinds.find((one) => one.kind === kind)?.title ?? kind;
}

function Row({ one, title }: { one: SessionRow; title: string }): JSX.Element {
  const isRunning = one.state === "RUNNING";
  const isOver = HAS_ENDED.has(one.state);
  return (
    <tr>
      <th scope="row"><a href={link(["jobs", one.job_id])}>{one.job_id}</a></th>
      <td>{title}</td>
      <td><JobState state={one.state} />{!isOver && !isRunning && one.reason && one.reason !== "None" && <span class="faint">{` ${one.reason}`}</span>}{isRunning && !one.is_ready && <span class="faint"> starting</span>}</td>
      <td data-title="Node">{one.node || "–"}</td>
      <td data-title="Started">{isRunning || isOver ? <Time us={one.start_at_us} /> : one.planned_start_at_us > 0 ? <>planned <Time us={one.planned_start_at_us} /></> : "–"}</td>
      <td data-title="Ends"><Time us={one.end_at_us} /></td>
      <td data-title="Idle">{isRunning && one.is_ready ? (one.connections ? count(one.connections, "connection") : duration(one.idle_s)) : "–"}</td>
      <td class="actions">{isOver ? one.message || "–" : <Actions one={one} />}</td>
    </tr>
  );
}

function Actions({ one }: { one: SessionRow }): JSX.Element {
  const [asked, setAsked] = useState<"" | "extend" | "stop">("");
  const [error, setError] = useState("");
  const path = `${SLURM}/job/${one.job_id}`;
  const close = (): void => setAsked("");
  const open = async (): Promise<void> => {
    setError("");
    try {
      const { url } = await change<{ url: string }>("POST", `${OWN}/sessions/${one.job_id}/enter`);
      follow(url);
    } catch (problem) {
      setError(textOf(problem));
    }
  };
  return (
    <>
      <div class="buttons">
        {one.is_ready && <button type="button" class="primary" aria-label={`Open session ${one.job_id}`} onClick={() => void open()}>Open</button>}
        <button type="button" aria-label={`Extend session ${one.job_id}`} onClick={() => setAsked("extend")}>Extend</button>
        <button type="button" class="danger" aria-label={`Stop session ${one.job_id}`} onClick={() => setAsked("stop")}>Stop</button>
      </div>
      {error && <p class="remark" role="alert">{error}</p>}
      {asked === "extend" && (
        <Dialog
          title={`Time of session ${one.job_id}`} confirm="Change" onClose={close}
          input={{ label: "Minutes in all, from its start", value: `${Math.round(one.time_limit_s / 60)}`, isRequired: true }}
          onConfirm={async (text) => {
            if (!/^\d{1,7}$/.test(text)) throw new Error("Give a number of minutes.");
            await change("POST", path, { time_limit: { set: true, infinite: false, number: Number(text) } });
            refresh();
          }}
        >
          <p>Users may shorten the time of a job that runs; who may lengthen it is the site's rule.</p>
        </Dialog>
      )}
      {asked === "stop" && (
        <Dialog title={`Stop session ${one.job_id}?`} confirm="Stop the session" isDangerous onClose={close} onConfirm={async () => {
          await change("DELETE", path);
          refresh();
        }}>
          <p>Its program is ended. What it has not saved is lost.</p>
        </Dialog>
      )}
    </>
  );
}

/** Opens another origin in a new tab, which does not know this page. */
function follow(url: string): void {
  if (!/^https?:\/\//.test(url)) return;
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.target = "_blank";
  anchor.rel = "noopener noreferrer";
  anchor.click();
}

function Start({ kinds }: { kinds: SessionsAnswer["kinds"] }): JSX.Element {
  const [kind, setKind] = useState(kinds[0]?.kind ?? "");
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [error, setError] = useState<ApiError | null>(null);
  const [started, setStarted] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const partitions = useAnswer<PartitionsAnswer>(`${SLURM}/partitions`);
  const names = (partitions.data?.partitions ?? []).map((one) => one.name);
  const chosen = kinds.find((one) => one.kind === kind);
  const hints: Readonly<Record<string, string>> = {
    time_minutes: `${chosen?.time_minutes ?? ""}`,
    idle_minutes: chosen?.idle_minutes ? `${chosen.idle_minutes}` : "never",
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setStarted(0);
    const body: Record<string, string | number> = { kind };
    for (const { name, isNumber } of FIELDS) {
      const text = (values[name] ?? "").trim();
      if (text) body[name] = isNumber && /^\d{1,9}$/.test(text) ? Number(text) : text;
    }
    try {
      setStarted((await change<{ job_id: number }>("POST", `${OWN}/sessions`, body)).job_id);
      refresh();
    } catch (problem) {
      setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem)));
    }
    setBusy(false);
  };
  return (
    <Card title="Start a session" class="wide">
      <form onSubmit={(event) => void submit(event)}>
        <div class="fields">
          <div class="field">
            <label for="session-kind">Kind</label>
            <select id="session-kind" value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
              {kinds.map((one) => <option key={one.kind} value={one.kind}>{one.title}</option>)}
            </select>
          </div>
          {FIELDS.map((field) => (
            <div key={field.name} class="field">
              <label for={`session-${field.name}`}>{field.label}</label>
              <input
                id={`session-${field.name}`} value={values[field.name] ?? ""} placeholder={hints[field.name] ?? field.hint} autocomplete="off"
                spellcheck={false} inputMode={field.isNumber ? "numeric" : "text"} list={field.name === "partition" ? "session-partitions" : undefined}
                onInput={(event) => setValues({ ...values, [field.name]: event.currentTarget.value })}
              />
            </div>
          ))}
        </div>
        <datalist id="session-partitions">{names.map((one) => <option key={one} value={one} />)}</datalist>
        {error && <p class="notice bad" role="alert">{[error.message, ...error.remarks.slice(1).map((one) => one.description)].join(" ")}</p>}
        {started > 0 && <p class="notice" role="status">{`Session ${started} is queued. It is in the list above.`}</p>}
        <div class="buttons end"><button type="submit" class="primary" disabled={isBusy || !kind}>Start</button></div>
      </form>
    </Card>
  );
}
