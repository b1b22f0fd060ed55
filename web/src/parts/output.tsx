import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { ApiError, OWN, read } from "../api/client";
import { useAnswer } from "../api/live";
import type { OutputAnswer, StepsAnswer } from "../api/types";
import { cut, type Found, type Line, search, Terminal } from "../lib/sgr";
import { HAS_ENDED } from "../lib/states";
import { bytes, count } from "../lib/units";
import { Card, Empty } from "./bits";

/**
 * What a job writes, as it comes: asked for from the last byte on, more seldom when nothing comes, not at all while the page
 * is hidden. Of a job that has ended it is read once. Of the lines the latest are kept.
 */

const POLL_MS = 1000;
const QUIET_MS = 10_000;
const FAILED_MS = 30_000;
const SLOWER = 1.5;
/** Between two parts of what is there already. */
const MORE_MS = 100;
/** What is further behind is left out: it would not be kept. */
const BEHIND_BYTES_MAX = 512 * 1024;
/** Places of a text that are marked. */
const FOUND_MAX = 1000;
const STREAMS = ["stdout", "stderr"] as const;
type Stream = (typeof STREAMS)[number];

/** Whose output: a task of a step, or of the job as a whole (no step). */
export interface Writer {
  readonly step: string;
  readonly task: number;
}

export const WHOLE: Writer = { step: "", task: 0 };
const WRITTEN_BY = "written-by";

/** Goes to the card, where it says whose output is shown. */
export function showOutputCard(): void {
  document.getElementById(WRITTEN_BY)?.focus();
}

const STEPS_MS = 10_000;
const STEPS_OFFERED = 200;

interface Seen {
  readonly lines: readonly Line[];
  readonly dropped: number;
  /** Bytes of the file before the first that was read. */
  readonly before: number;
  readonly answer: OutputAnswer | undefined;
  readonly error: ApiError | null;
}

const NOTHING: Seen = { lines: [], dropped: 0, before: 0, answer: undefined, error: null };

/** Asks while the job may write. `isFollowed` false: nothing is asked, and what was read stays. */
function useOutput(id: string, { step, task }: Writer, stream: Stream, state: string, isFollowed: boolean): Seen {
  const [seen, setSeen] = useState<Seen>(NOTHING);
  const held = useRef({ key: "", terminal: new Terminal(), offset: -1, before: 0 });
  const key = `${id} ${stream} ${step} ${task}`;
  useEffect(() => {
    if (held.current.key !== key) {
      held.current = { key, terminal: new Terminal(), offset: -1, before: 0 };
      setSeen(NOTHING);
    }
    if (!isFollowed) return;
    const abort = new AbortController();
    let [timer, pauseMs, isBusy] = [0, POLL_MS, false];
    const later = (ms: number): void => {
      clearTimeout(timer);
      if (!abort.signal.aborted && !document.hidden) timer = window.setTimeout(() => void ask(), ms);
    };
    const ask = async (): Promise<void> => {
      if (isBusy || document.hidden) return;
      isBusy = true;
      try {
        const found = await readPart(id, { step, task }, stream, held.current.offset, abort.signal);
        if (abort.signal.aborted) return;
        const hasMore = found.next_offset < found.size && found.text !== "";
        pauseMs = found.text ? POLL_MS : Math.min(pauseMs * SLOWER, QUIET_MS);
        setSeen(taken(held.current, found));
        if (hasMore || found.is_live || !HAS_ENDED.has(found.state)) later(hasMore ? MORE_MS : pauseMs);
      } catch (error) {
        if (abort.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(0, "The answer broke off.");
        setSeen((before) => ({ ...before, error: known }));
        pauseMs = Math.min(pauseMs * 2, FAILED_MS);
        if ([0, 429, 503].includes(known.status)) later(pauseMs);
      } finally {
        isBusy = false;
      }
    };
    const shown = (): void => later(0);
    void ask();
    document.addEventListener("visibilitychange", shown);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key, id, step, task, stream, state, isFollowed]);
  return held.current.key === key ? seen : NOTHING;
}

interface Held {
  terminal: Terminal;
  offset: number;
  before: number;
}

function taken(held: Held, found: OutputAnswer): Seen {
  if (found.text || (found.is_live && !found.warnings.length)) {
    if (held.offset < 0 || found.offset !== held.offset) { // the first part, or a file that was begun anew
      held.terminal = new Terminal();
      held.before = found.offset;
    }
    if (found.text || held.offset < 0) held.terminal.feed(found.text);
    held.offset = found.size - found.next_offset > BEHIND_BYTES_MAX ? -1 : found.next_offset;
  }
  return { lines: held.terminal.lines, dropped: held.terminal.dropped, before: held.before, answer: found, error: null };
}

async function readPart(id: string, writer: Writer, stream: Stream, offset: number, signal: AbortSignal): Promise<OutputAnswer> {
  const query = new URLSearchParams({ stream });
  if (writer.step) query.set("step", writer.step);
  if (writer.step) query.set("task", `${writer.task}`);
  if (offset >= 0) query.set("offset", `${offset}`);
  const found = await read<OutputAnswer>(`${OWN}/jobs/${encodeURIComponent(id)}/output?${query.toString()}`, "", signal);
  if (!found) throw new ApiError(0, "The daemon does not answer.");
  return found.data;
}

// ---- the card

interface OutputProps {
  id: string;
  state: string;
  stdout: string;
  stderr: string;
  writer: Writer;
  choose: (writer: Writer) => void;
}

export function Output(props: OutputProps): JSX.Element {
  const { id, state, stdout, stderr, writer } = props;
  const [stream, setStream] = useState<Stream>("stdout");
  const [isFollowed, setFollowed] = useState(true);
  const [wanted, setWanted] = useState("");
  const [at, setAt] = useState(0);
  const seen = useOutput(id, writer, stream, state, isFollowed);
  const found = useMemo(() => search(seen.lines, wanted, FOUND_MAX), [seen.lines, wanted]);
  const place = found.length ? ((at % found.length) + found.length) % found.length : 0;
  const text = (): string => seen.lines.map((one) => `${one.text}\n`).join("");
  const hasTwo = writer.step !== "" || (stderr !== "" && stderr !== stdout);
  const step = (event: KeyboardEvent): void => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    setAt(place + (event.shiftKey ? -1 : 1));
  };
  return (
    <Card
      title="Output" class="wide"
      more={(
        <div class="output-tools">
          <Writers id={id} writer={writer} choose={props.choose} />
          {hasTwo && (
            <div class="buttons" role="group" aria-label="Stream">
              {STREAMS.map((one) => (
                <button key={one} type="button" class={one === stream ? "on" : ""} aria-pressed={one === stream} onClick={() => setStream(one)}>{one}</button>
              ))}
            </div>
          )}
          <button type="button" class={isFollowed ? "on" : ""} aria-pressed={isFollowed} onClick={() => setFollowed(!isFollowed)}>Follow</button>
          <input
            type="search" class="search" placeholder="Search" aria-label="Search the output" maxLength={200} value={wanted}
            onInput={(event) => { setWanted(event.currentTarget.value); setAt(0); }} onKeyDown={step}
          />
          <span class="small faint" role="status">{wanted && foundText(found, place)}</span>
          <Copy text={text} />
          <button type="button" disabled={!seen.lines.length} onClick={() => download(`job-${id}.${stream === "stdout" ? "out" : "err"}`, text())}>Download</button>
        </div>
      )}
    >
      <Remarks seen={seen} stream={stream} hasTwo={hasTwo} />
      {seen.lines.length > 0
        ? <Lines seen={seen} found={found} place={place} length={wanted.length} isFollowed={isFollowed && !wanted} name={stream} />
        : <Empty>{emptyText(seen, state)}</Empty>}
    </Card>
  );
}

/** Nothing for a job that has a batch script alone. */
function Writers({ id, writer, choose }: { id: string; writer: Writer; choose: (writer: Writer) => void }): JSX.Element | null {
  const answer = useAnswer<StepsAnswer>(`${OWN}/jobs/${encodeURIComponent(id)}/steps`, STEPS_MS);
  const steps = (answer.data?.steps ?? []).filter((one) => /^\d+$/.test(one.step)).slice(-STEPS_OFFERED);
  if (!steps.length) return null;
  const tasks = steps.find((one) => one.step === writer.step)?.tasks ?? 0;
  return (
    <span class="choose">
      <select id={WRITTEN_BY} aria-label="Written by" value={writer.step} onChange={(event) => choose({ step: event.currentTarget.value, task: 0 })}>
        <option value="">whole job</option>
        {steps.map((one) => <option key={one.step} value={one.step}>{`step ${one.step}${one.name && ` ${one.name.slice(0, 40)}`}`}</option>)}
      </select>
      {tasks > 1 && (
        <label>Task <input
          type="number" aria-label="Task" min={0} max={tasks - 1} value={writer.task}
          onChange={(event) => choose({ ...writer, task: Math.min(tasks - 1, Math.max(0, Math.trunc(event.currentTarget.valueAsNumber) || 0)) })}
        /></label>
      )}
    </span>
  );
}

function foundText(found: readonly Found[], place: number): string {
  if (!found.length) return "not found";
  return `${place + 1} of ${found.length < FOUND_MAX ? found.length : `more than ${FOUND_MAX - 1}`}`;
}

function emptyText(seen: Seen, state: string): string {
  if (seen.error) return seen.error.message;
  if (!seen.answer) return HAS_ENDED.has(state) ? "" : "Reading the output …";
  if (seen.answer.warnings.length) return "";
  if (HAS_ENDED.has(seen.answer.state)) return "Nothing was written.";
  return seen.answer.is_live ? "Nothing has been written yet." : "It has not begun.";
}

function Remarks({ seen, stream, hasTwo }: { seen: Seen; stream: Stream; hasTwo: boolean }): JSX.Element {
  const { answer, lines } = seen;
  const hidden = seen.dropped ? `Of the output the last ${count(lines.length, "line")} are here.`
    : seen.before ? `The first ${bytes(seen.before)} are not here.` : "";
  return (
    <>
      {answer?.path && (
        <p class="small faint">
          <code>{answer.path}</code>{answer.node && ` on ${answer.node}`}{!hasTwo && stream === "stdout" && answer.is_live && ", with standard error"}. {hidden}
        </p>
      )}
      {seen.error && lines.length > 0 && <p class="notice bad" role="alert">{seen.error.message}</p>}
      {answer?.warnings.map((one) => <p key={one.description} class="notice wait">{sentence(one.description, lines.length > 0)}</p>)}
    </>
  );
}

function sentence(text: string, isPartly: boolean): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return isPartly ? `${whole}. The last lines may be missing here.` : `${whole}.`;
}

function Lines(props: {
  seen: Seen; found: readonly Found[]; place: number; length: number; isFollowed: boolean; name: string;
}): JSX.Element {
  const { seen, found, place, length, isFollowed, name } = props;
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const cache = useRef(new WeakMap<Line, JSX.Element>());
  const places = useMemo(() => byLine(found), [found]);
  const current = found[place];
  useEffect(() => {
    if (isFollowed && isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [seen.lines, isFollowed]);
  useEffect(() => {
    box.current?.querySelector("mark.now")?.scrollIntoView({ block: "nearest" });
  }, [current?.line, current?.from, length]);
  const scrolled = (): void => {
    const it = box.current;
    if (it) isAtEnd.current = it.scrollHeight - it.scrollTop - it.clientHeight < 8;
  };
  return (
    <div ref={box} class="output" tabIndex={0} role="log" aria-live="off" aria-label={`Output, ${name}`} onScroll={scrolled}>
      {seen.lines.map((line, index) => {
        const own = places.get(index);
        if (own) return <Marked key={line.key} line={line} places={own} length={length} now={current?.line === index ? current.from : -1} />;
        let made = cache.current.get(line);
        if (!made) cache.current.set(line, (made = <Plain key={line.key} line={line} />)); // the same element is not drawn again
        return made;
      })}
    </div>
  );
}

function byLine(found: readonly Found[]): ReadonlyMap<number, number[]> {
  const made = new Map<number, number[]>();
  for (const one of found) {
    const known = made.get(one.line);
    if (known) known.push(one.from);
    else made.set(one.line, [one.from]);
  }
  return made;
}

function Plain({ line }: { line: Line }): JSX.Element {
  return <div>{line.pieces.length ? line.pieces.map((one, index) => (one.style ? <span key={index} class={one.style}>{one.text}</span> : one.text)) : "\n"}</div>;
}

function Marked({ line, places, length, now }: { line: Line; places: readonly number[]; length: number; now: number }): JSX.Element {
  return (
    <div>
      {cut(line, places, length).map((one, index) => (one.mark >= 0
        ? <mark key={index} class={places[one.mark] === now ? "now" : ""}>{one.text}</mark>
        : <span key={index} class={one.style}>{one.text}</span>))}
    </div>
  );
}

function Copy({ text }: { text: () => string }): JSX.Element {
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setSaid("Copied");
    } catch {
      setSaid("Not allowed");
    }
  };
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  return <button type="button" onClick={() => void copy()}><span aria-live="polite">{said || "Copy"}</span></button>;
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[^\w.-]/g, "_");
  link.click();
  URL.revokeObjectURL(url);
}
