import "@xterm/xterm/css/xterm.css";

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";

import "./terminal.css";

/**
 * The page of a session that is a terminal, on the origin of sessions. It has no login: the cookie of the session, which no
 * script reads, goes with the WebSocket. What the program writes is drawn by xterm.js and by nothing else.
 */

const OUTPUT_LINES = 10_000;
const job = new URLSearchParams(location.search).get("job") ?? "";
const state = document.getElementById("state");
const again = document.getElementById("again");
const place = document.getElementById("terminal");

function say(text: string, isOver: boolean): void {
  if (state) state.textContent = text;
  if (again) again.hidden = !isOver;
}

/** Why the session cannot be reached, in the daemon's words. */
async function reason(base: string): Promise<string> {
  const answer = await fetch(base, { cache: "no-store" }).catch(() => null);
  if (!answer) return "The daemon does not answer.";
  if (answer.status === 403 || answer.status === 503) return await answer.text();
  return answer.status === 404 ? "The session has ended." : "The connection has ended.";
}

function start(box: HTMLElement, base: string): void {
  const terminal = new Terminal({ scrollback: OUTPUT_LINES, cursorBlink: false, theme: { background: "#14171c" } });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  fit.fit();
  const text = new TextEncoder();
  let wire: WebSocket | null = null;
  const send = (data: string | Uint8Array<ArrayBuffer>): void => {
    if (wire?.readyState === WebSocket.OPEN) wire.send(data);
  };
  const resized = (): void => send(JSON.stringify({ rows: terminal.rows, columns: terminal.cols }));
  const connect = (): void => {
    say("Connecting …", false);
    const next = new WebSocket(`${location.origin.replace(/^http/, "ws")}${base}ws`);
    next.binaryType = "arraybuffer";
    wire = next;
    next.addEventListener("open", () => {
      terminal.reset(); // the last output comes again
      say(`Job ${job}`, false);
      resized();
      terminal.focus();
    });
    next.addEventListener("message", (event: MessageEvent<ArrayBuffer>) => terminal.write(new Uint8Array(event.data)));
    next.addEventListener("close", () => {
      void reason(base).then((why) => say(why, true));
    });
  };
  terminal.onData((data) => send(text.encode(data)));
  terminal.onBinary((data) => send(Uint8Array.from(data, (one) => one.charCodeAt(0))));
  terminal.onResize(resized);
  new ResizeObserver(() => fit.fit()).observe(box);
  again?.addEventListener("click", connect);
  connect();
}

if (place && /^\d{1,10}$/.test(job)) {
  document.title = `Terminal · job ${job}`;
  start(place, `/session/${job}/`);
} else {
  say("This address names no session.", false);
}
