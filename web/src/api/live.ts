import { useEffect, useRef, useState } from "preact/hooks";

import { Store } from "../lib/store";
import { ApiError, OWN, read } from "./client";

/**
 * What is shown follows the cluster: the daemon's event stream says when something happened, and then what is on the page is
 * asked again, which an entity tag makes cheap. Without a stream (404, or it broke) the page asks every few seconds. Nothing
 * is asked while the page is hidden.
 */

export type Connection = "live" | "polling" | "lost";
export const connection = new Store<Connection>("polling");
const tick = new Store(0);

const POLL_MS = 3000;
/** With a stream, all is asked at this interval nevertheless: load of nodes makes no events. */
const SLOW_POLL_MS = 30000;
/** Events that come together are answered together. */
const GATHER_MS = 250;
const KINDS = ["job", "node", "gpu", "reservation", "missed", "hello"];

let stream: EventSource | null = null;
let gathering = 0;

/** Asks again for everything on the page, soon. */
export function refresh(): void {
  if (gathering || document.hidden) return;
  gathering = window.setTimeout(() => {
    gathering = 0;
    tick.set(tick.value + 1);
  }, GATHER_MS);
}

export function startLive(): () => void {
  const follow = (): void => {
    stream = new EventSource(`${OWN}/events`);
    stream.onopen = () => connection.set("live");
    for (const kind of KINDS) stream.addEventListener(kind, refresh);
    stream.onerror = () => {
      if (connection.value === "live") connection.set("polling");
      if (stream?.readyState === EventSource.CLOSED) stream = null; // there is none: it is not tried again
    };
  };
  follow();
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
    stream?.close();
    stream = null;
    clearInterval(timer);
    document.removeEventListener("visibilitychange", refresh);
  };
}

export interface Answer<T> {
  readonly data: T | undefined;
  readonly error: ApiError | null;
}

/** The answer of a path, kept up to date. "" asks nothing. What was read stays when the daemon does not answer. */
export function useAnswer<T>(path: string): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T> & { path: string }>({ path, data: undefined, error: null });
  const held = useRef({ path: "", tag: "", busy: false });
  useEffect(() => {
    const abort = new AbortController();
    held.current = { path, tag: "", busy: false };
    const ask = async (): Promise<void> => {
      const mine = held.current;
      if (!path || mine.busy) return;
      mine.busy = true;
      try {
        const found = await read<T>(path, mine.tag, abort.signal);
        if (connection.value === "lost") connection.set(stream ? "live" : "polling");
        if (found && held.current === mine) {
          mine.tag = found.tag;
          setAnswer({ path, data: found.data, error: null });
        }
      } catch (error) {
        if (error instanceof ApiError && held.current === mine) failed(error, path, setAnswer);
      } finally {
        mine.busy = false;
      }
    };
    void ask();
    const stop = tick.follow(() => void ask());
    return () => {
      abort.abort();
      stop();
    };
  }, [path]);
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
