import type { JSX } from "preact";
import { useRef } from "preact/hooks";

import { type LineRemark, placeIn } from "../lib/lint";

/**
 * A text, as the script of a job, with what is said of its lines: each of them has a mark behind the text, and its words below lead to it.
 * Lines are not wrapped, so a line's place is its number.
 */

/** Height of a line in rem, as the style sheet has it: a multiple of a pixel, so that the sum of many is exact. */
const LINE_REM = 1.375;

function toneOf(one: LineRemark): "bad" | "wait" {
  return one.severity === "error" ? "bad" : "wait";
}

export function ScriptEditor(props: { script: string; remarks: readonly LineRemark[]; onInput: (script: string) => void; label?: string }): JSX.Element {
  const { label = "Script" } = props;
  const area = useRef<HTMLTextAreaElement>(null);
  const marks = useRef<HTMLDivElement>(null);
  const follow = (): void => {
    if (marks.current && area.current) marks.current.style.transform = `translateY(${-area.current.scrollTop}px)`;
  };
  const go = (one: LineRemark): void => {
    const at = placeIn(props.script, one.line, one.column);
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
  };
  const tones = new Map<number, "bad" | "wait">(); // of several remarks on a line the worst gives the colour
  for (const one of props.remarks) {
    if (one.line > 0 && tones.get(one.line) !== "bad") tones.set(one.line, toneOf(one));
  }
  return (
    <>
      <div class="editor">
        <div class="marks" aria-hidden="true">
          <div ref={marks}>
            {[...tones].map(([line, tone]) => <span key={line} class={tone} data-line={line} style={{ top: `${(line - 1) * LINE_REM}rem` }} />)}
          </div>
        </div>
        <textarea
          ref={area} class="script" aria-label={label} spellcheck={false} autocapitalize="off" value={props.script} wrap="off"
          onInput={(event) => props.onInput(event.currentTarget.value)} onScroll={follow}
        />
      </div>
      <ul class="said" aria-live="polite" aria-label={`About the ${label.toLowerCase()}`}>
        {props.remarks.map((one) => (
          <li key={`${one.line} ${one.text}`} class={`notice ${toneOf(one)}`}>
            {one.line > 0 && <><button type="button" onClick={() => go(one)}>{`Line ${one.line}`}</button>: </>}
            {one.text}
            {one.fix && <code>{one.fix}</code>}
          </li>
        ))}
      </ul>
    </>
  );
}
