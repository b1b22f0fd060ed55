import type { Remark } from "../api/client";
import type { LineRemark } from "./lint";
import type { Tone } from "./states";

/** What the daemon says of a policy's text, and what a plan would do, as they are shown. */

/** Mistakes in the text, each at its line: `policy:3: there is no key X`, or a line that YAML's own message names. */
export function policyRemarks(remarks: readonly Remark[]): LineRemark[] {
  return remarks.map(({ description }) => {
    const [, own, said] = /^policy:(\d+): (.*)$/s.exec(description) ?? [];
    const [, yaml, column] = /\bline (\d+), column (\d+)(?!.*\bline \d)/s.exec(description) ?? [];
    return { line: Number(own ?? yaml ?? 0), column: Number(column ?? 0), severity: "error", text: said ?? description, fix: "" };
  });
}

const SIGNS: Readonly<Record<string, readonly [string, Tone]>> = { "+": ["Added", "good"], "~": ["Changed", "wait"], "-": ["Removed", "bad"] };

/** The word and the tone of a step's sign. */
export function signOf(sign: string): readonly [string, Tone] {
  return SIGNS[sign] ?? [sign, "off"];
}
