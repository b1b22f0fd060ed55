import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { ApiError } from "../api/client";
import { jobTone, type Tone, words } from "../lib/states";
import { fullTime, moment, relative } from "../lib/units";

export function Chip({ tone, children }: { tone: Tone; children: ComponentChildren }): JSX.Element {
  return <span class={`chip ${tone}`}>{children}</span>;
}

export function JobState({ state }: { state: string }): JSX.Element {
  return <Chip tone={jobTone(state)}>{words(state)}</Chip>;
}

/** A time, with its date and zone as a title. */
export function Time({ us, isRelative = false }: { us: number; isRelative?: boolean }): JSX.Element {
  if (us <= 0) return <span class="faint">–</span>;
  return (
    <time dateTime={new Date(us / 1000).toISOString()} title={fullTime(us)}>
      {isRelative ? relative(us) : moment(us)}
    </time>
  );
}

export function Card(props: { title: string; more?: ComponentChildren; class?: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class={`card ${props.class ?? ""}`}>
      <header>
        <h2>{props.title}</h2>
        {props.more}
      </header>
      {props.children}
    </section>
  );
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

/** What is shown until data is there, or instead of it. */
export function Pending({ error, what }: { error: ApiError | null; what: string }): JSX.Element {
  if (!error) return <p class="empty" role="status">{`Loading ${what} …`}</p>;
  const hint = error.status === 404 ? "It may have ended too long ago, or never existed." : "";
  return (
    <div class="notice bad" role="alert">
      <strong>{error.message}</strong> {hint}
    </div>
  );
}

/** Names and values, in columns. */
export function Facts({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value === "" || value === null || value === undefined ? <span class="faint">–</span> : value}</dd>
        </div>
      ))}
    </dl>
  );
}

export interface Share {
  readonly label: string;
  readonly amount: number;
  readonly tone: Tone | "idle" | "unused";
}

/** Parts of a whole as one bar with its legend. */
export function Bar({ shares, unit }: { shares: readonly Share[]; unit: string }): JSX.Element {
  const total = shares.reduce((sum, one) => sum + one.amount, 0);
  const text = shares.map((one) => `${one.amount} ${one.label}`).join(", ");
  return (
    <div class="bar-box">
      <div class="bar" role="img" aria-label={`${total} ${unit}: ${text}`}>
        {total > 0 && shares.map((one) => one.amount > 0 && (
          <span key={one.label} class={`part ${one.tone}`} style={{ flexGrow: one.amount }} />
        ))}
      </div>
      <ul class="legend">
        {shares.filter((one, index) => one.amount > 0 || index < 2).map((one) => (
          <li key={one.label}>
            <i class={`dot ${one.tone}`} aria-hidden="true" /> <b>{one.amount.toLocaleString("en")}</b> {one.label}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A question before something is done. */
export function Dialog(props: {
  title: string;
  confirm: string;
  isDangerous?: boolean;
  isWide?: boolean;
  onClose: () => void;
  onConfirm: (text: string) => Promise<void>;
  input?: { label: string; value: string; isRequired: boolean };
  children?: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState(props.input?.value ?? "");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => box.current?.showModal(), []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await props.onConfirm(text.trim());
      props.onClose();
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
      setBusy(false);
    }
  };
  return (
    <dialog ref={box} class={props.isWide ? "wide" : ""} aria-labelledby="dialog-title" onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)} onInput={() => setError("")}>
        <h2 id="dialog-title">{props.title}</h2>
        {props.children}
        {props.input && (
          <label class="field">
            {props.input.label}
            <input value={text} required={props.input.isRequired} maxLength={200} onInput={(event) => setText(event.currentTarget.value)} />
          </label>
        )}
        {error && <p class="notice bad" role="alert">{error}</p>}
        <div class="buttons end">
          <button type="button" onClick={props.onClose}>Back</button>
          <button type="submit" class={props.isDangerous ? "danger" : "primary"} disabled={isBusy}>{props.confirm}</button>
        </div>
      </form>
    </dialog>
  );
}
