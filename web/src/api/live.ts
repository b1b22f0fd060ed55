import { useLayoutEffect, useState } from "preact/hooks";

import { Asker } from "../lib/asker";
import { type Change, ChangeReader, type Changes, concern } from "../lib/changes";
import { Rounds } from "../lib/rounds";
import { Store } from "../lib/store";
import { ApiError, OWN, read } from "./client";
import { proof } from "./key";

/**
 * What is shown follows the cluster: the daemon's event stream says what happened, and then what it concerns (lib/changes.ts)
 * is asked again, which an entity tag makes cheap. Without a stream (404, or it broke) the page asks every few seconds. Nothing
 * is asked while the page is hidden.
 */

export type Connection = "live" | "polling" | "lost";
export const connection = new Store<Connection>("polling");
/** A round of questions: what has happened since the last one. */
const round = new Store<{ readonly changes: Changes }>({ changes: null });

const POLL_MS = 3000;
/** With a stream, all is asked at this interval nevertheless: load of nodes makes no events. Of 200 open pages (bench/browsers.py). */
const SLOW_POLL_MS = 60000;
/** More changes than these are not looked at one by one. */
const CHANGES_MAX = 100;
/** A stream that ended is opened again after this time. */
const REOPEN_MS = 5000;
const NO_STREAM = [401, 403, 404];

let gathering = 0;
let happened: Change[] | null = [];
const rounds = new Rounds();

/** Asks again for everything on the page, soon. */
export function refresh(): void {
  note(null);
}

/** Asks again for what the change concerns, soon. null: anything may have changed. */
function note(change: Change | null): void {
  if (document.hidden) return; // all is asked when it is seen again
  if (change === null || (happened && happened.length >= CHANGES_MAX)) happened = null;
  else happened?.push(change);
  if (gathering) return;
  gathering = window.setTimeout(() => {
    const changes = happened;
    gathering = 0;
    happened = [];
    rounds.begin(performance.now());
    round.set({ changes });
  }, rounds.waitMs(performance.now(), Math.random()));
}

/** Reads the stream of changes until it ends. EventSource cannot send the header that proves the user. */
async function readStream(signal: AbortSignal): Promise<boolean> {
  const response = await fetch(`${OWN}/events`, { headers: { ...proof(), Accept: "text/event-stream" }, signal });
  if (!response.ok || !response.body) return !NO_STREAM.includes(response.status);
  connection.set("live");
  const parts = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const changes = new ChangeReader();
  for (;;) {
    const { done, value } = await parts.read();
    if (done) return true;
    changes.read(value).forEach(note);
  }
}

async function follow(signal: AbortSignal): Promise<void> {
  let isServed = true;
  while (isServed && !signal.aborted) {
    isServed = await readStream(signal).catch(() => true);
    if (connection.value === "live") connection.set("polling");
    if (isServed) await new Promise((resume) => setTimeout(resume, REOPEN_MS));
  }
}

export function startLive(): () => void {
  const abort = new AbortController();
  void follow(abort.signal);
  let last = Date.now();
  const timer = window.setInterval(() => {
    const due = connection.value === "live" ? SLOW_POLL_MS : POLL_MS;
    if (Date.now() - last >= due) {
      last = Date.now();
      refresh();
    }
  }, 1000);
  document.addEventListener("visibilitychange", refresh);
  return () => {
    abort.abort();
    clearInterval(timer);
    document.removeEventListener("visibilitychange", refresh);
  };
}

export interface Answer<T> {
  readonly data: T | undefined;
  readonly error: ApiError | null;
}

/**
 * The answer of a path, kept up to date. "" asks nothing. What was read stays when the daemon does not answer. `everyMs`: it is
 * asked again at most so often, which is for what is dear and changes without events. `isAwaited`: of an answer that is about to
 * change without an event, which is asked for again after AWAITED_MS.
 */
export function useAnswer<T>(path: string, everyMs = 0, isAwaited?: (data: T) => boolean): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T> & { path: string }>({ path, data: undefined, error: null });
  useLayoutEffect(() => { // and not after the next frame, for which it would wait in vain
    if (!path) return undefined;
    const abort = new AbortController();
    const asker = new Asker<T>({
      everyMs,
      ask: async (tag) => {
        const found = await read<T>(path, tag, abort.signal);
        if (connection.value === "lost") connection.set("polling");
        return found;
      },
      found: (data) => {
        setAnswer({ path, data, error: null });
        return isAwaited?.(data) ?? false;
      },
      failed: (error) => {
        if (error instanceof ApiError) failed(error, path, setAnswer);
      },
      took: (ms) => rounds.took(ms),
      isSeen: () => !document.hidden,
      nowMs: () => performance.now(),
    });
    void asker.ask();
    const stop = round.follow(() => {
      if (concern(round.value.changes, path)) void asker.ask();
    });
    return () => {
      abort.abort();
      asker.close();
      stop();
    };
  }, [path, everyMs, isAwaited]);
  return answer.path === path ? answer : { data: undefined, error: null };
}

function failed<T>(
  error: ApiError,
  path: string,
  setAnswer: (update: (before: Answer<T> & { path: string }) => Answer<T> & { path: string }) => void,
): void {
  if (error.status === 0 || error.status === 503) {
    connection.set("lost");
    setAnswer((before) => (before.path === path && before.data !== undefined ? before : { path, data: undefined, error }));
  } else {
    setAnswer(() => ({ path, data: undefined, error }));
  }
}
