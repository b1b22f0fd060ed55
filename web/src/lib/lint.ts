import type { LineProblem } from "./options";

/** What is said of the lines of a script: by the form, which passes its options on, and by the rules of `sbatch --lint`. */

export interface Finding {
  /** From 1; 0: the script as a whole. */
  readonly line: number;
  /** From 1, in characters; 0: not known. */
  readonly column: number;
  readonly severity: string;
  readonly rule: string;
  readonly text: string;
  readonly fix: string;
}

export type LineRemark = Omit<Finding, "rule">;

/** Of the findings about a script those that still hold for one that has changed since: about lines that are as they were. */
export function stillSaid(findings: readonly Finding[], about: string, script: string): readonly Finding[] {
  if (about === script) return findings;
  const [before, now] = [about.split("\n"), script.split("\n")];
  return findings.filter((one) => one.line > 0 && before[one.line - 1] === now[one.line - 1]);
}

/** In the order of lines. Of a line that the form cannot read sbatch says the same in other words, and what to write instead. */
export function lineRemarks(problems: readonly LineProblem[], findings: readonly Finding[]): LineRemark[] {
  const known = new Set(problems.map((one) => one.line + 1));
  const same = findings.filter((one) => one.severity === "error" && known.has(one.line));
  const own = problems.map(({ line, text }) => {
    const { column = 0, fix = "" } = same.find((one) => one.line === line + 1) ?? {};
    return { line: line + 1, column, severity: "error", text, fix };
  });
  return [...own, ...findings.filter((one) => !same.includes(one))].sort((one, other) => one.line - other.line);
}

/** The index in the script of a line and column. */
export function placeIn(script: string, line: number, column: number): number {
  const lines = script.split("\n");
  const before = lines.slice(0, Math.max(0, line - 1)).reduce((sum, text) => sum + text.length + 1, 0);
  const signs = [...(lines[line - 1] ?? "")].slice(0, Math.max(0, column - 1));
  return Math.min(script.length, before + signs.join("").length);
}
