import { minutes, set } from "./model";

/**
 * The options in a script's #SBATCH lines, and the job that they describe as the REST interface takes it. The interface does not
 * read these lines, so an option that is not known here is a problem and never ignored.
 */

export interface ScriptOption {
  readonly name: string;
  /** "" of a switch. */
  readonly value: string;
  /** Index of its line. */
  readonly line: number;
}

export interface LineProblem {
  readonly line: number;
  readonly text: string;
}

type Members = Record<string, unknown>;

interface Known {
  readonly short: string;
  readonly isSwitch: boolean;
  /** The members that it sets; null: the value cannot be read. */
  readonly members: (value: string) => Members | null;
}

function known(members: (value: string) => Members | null, short = "", isSwitch = false): Known {
  return { short, isSwitch, members };
}

function text(member: string, short = ""): Known {
  return known((value) => ({ [member]: value }), short);
}

function number(member: string, short = ""): Known {
  return known((value) => (/^-?\d{1,9}$/.test(value) ? { [member]: Number(value) } : null), short);
}

function list(member: string, short = ""): Known {
  return known((value) => ({ [member]: value.split(",").filter(Boolean) }), short);
}

function mebibytes(member: string): Known {
  return known((value) => {
    const mb = memoryMb(value);
    return mb === null ? null : { [member]: set(mb) };
  });
}

function yes(members: Members, short = ""): Known {
  return known(() => members, short, true);
}

function limitOf(value: string): Members | null {
  if (/^(-1|infinite|unlimited)$/i.test(value)) return { time_limit: { set: true, infinite: true, number: 0 } };
  const found = minutes(value);
  return found === null ? null : { time_limit: set(found) };
}

/** A map and no object: a script may name any word, `constructor` too. */
const OPTIONS: ReadonlyMap<string, Known> = new Map<string, Known>(Object.entries({
  "account": text("account", "A"), "array": text("array", "a"), "comment": text("comment"), "constraint": text("constraints", "C"),
  "dependency": text("dependency", "d"), "distribution": text("distribution", "m"), "extra": text("extra"),
  "licenses": text("licenses", "L"), "mail-user": text("mail_user"), "nodes": text("nodes", "N"), "partition": text("partition", "p"),
  "prefer": text("prefer"), "qos": text("qos", "q"), "reservation": text("reservation"), "wckey": text("wckey"),
  "job-name": text("name", "J"), "output": text("standard_output", "o"), "error": text("standard_error", "e"),
  "input": text("standard_input", "i"), "chdir": text("current_working_directory", "D"),
  "cpus-per-task": number("cpus_per_task", "c"), "ntasks": number("tasks", "n"), "ntasks-per-node": number("tasks_per_node"),
  "ntasks-per-socket": number("tasks_per_socket"), "ntasks-per-core": number("tasks_per_core"), "mincpus": number("minimum_cpus_per_node"),
  "nice": number("nice"), "mem": mebibytes("memory_per_node"), "mem-per-cpu": mebibytes("memory_per_cpu"), "time": known(limitOf, "t"),
  "gpus": known((value) => ({ tres_per_job: `gres/gpu:${value}` }), "G"),
  "gpus-per-node": known((value) => ({ tres_per_node: `gres/gpu:${value}` })),
  "gpus-per-task": known((value) => ({ tres_per_task: `gres/gpu:${value}` })),
  "gres": known((value) => ({ tres_per_node: value.split(",").map((one) => `gres/${one}`).join(",") })),
  "nodelist": list("required_nodes", "w"), "exclude": list("excluded_nodes", "x"),
  "mail-type": known((value) => ({ mail_type: value.toUpperCase().split(",").filter(Boolean) })),
  "open-mode": known((value) => ({ open_mode: [value.toUpperCase()] })),
  "exclusive": known((value) => ({ shared: [value || "none"] }), "", true), "oversubscribe": yes({ shared: ["oversubscribe"] }, "s"),
  "hold": yes({ hold: true }, "H"), "overcommit": yes({ overcommit: true }, "O"), "contiguous": yes({ contiguous: true }),
  "requeue": yes({ requeue: true }), "no-requeue": yes({ requeue: false }),
}));
/** What changes the job nothing here, and is no mistake in a script. */
const SILENT = new Set(["parsable", "quiet", "verbose"]);
/** The option of a member, for what the controller says of it. */
export const OPTION_OF: ReadonlyMap<string, string> = new Map(
  [...OPTIONS].reverse().flatMap(([name, option]) => Object.keys(option.members("1") ?? {}).map((member) => [member, name])),
);

/** `4G`, `512M`, `4096` as MiB, rounded up; null for another text. */
export function memoryMb(value: string): number | null {
  const found = /^(\d{1,12})([kmgt]?)b?$/i.exec(value);
  if (!found) return null;
  const units: Record<string, number> = { k: 1 / 1024, "": 1, m: 1, g: 1024, t: 1024 * 1024 };
  return Math.ceil(Number(found[1]) * (units[(found[2] ?? "").toLowerCase()] ?? 1));
}

interface Line {
  readonly words: readonly string[];
  readonly comment: string;
}

/** The words of an #SBATCH line as a shell would split them; a # begins a comment. */
function split(line: string): Line {
  const words: string[] = [];
  let [word, quote, isWord] = ["", "", false];
  for (let at = "#SBATCH".length; at < line.length; at++) {
    const sign = line.charAt(at);
    if (quote) {
      if (sign === quote) quote = "";
      else word += sign === "\\" && quote === '"' ? line.charAt(++at) : sign;
    } else if (/\s/.test(sign)) {
      if (isWord) words.push(word);
      [word, isWord] = ["", false];
    } else if (sign === "#" && !isWord) {
      return { words, comment: line.slice(at) };
    } else {
      isWord = true;
      if (sign === '"' || sign === "'") quote = sign;
      else word += sign === "\\" ? line.charAt(++at) : sign;
    }
  }
  return { words: isWord ? [...words, word] : words, comment: "" };
}

function isOptions(line: string): boolean {
  return /^#SBATCH(\s|$)/.test(line);
}

/** How many lines from the first have a say: up to the first command. */
function headLength(lines: readonly string[]): number {
  const end = lines.findIndex((line) => line.trim() !== "" && !line.startsWith("#"));
  return end < 0 ? lines.length : end;
}

function readLine(line: string, index: number, problems: LineProblem[]): ScriptOption[] {
  const { words } = split(line);
  const found: ScriptOption[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    const long = /^--([\w-]+)(?:=([^]*))?$/.exec(word);
    const short = /^-(\w)([^]*)$/.exec(word);
    const name = long?.[1] ?? [...OPTIONS].find(([, one]) => short && one.short === short[1])?.[0] ?? "";
    const option = OPTIONS.get(name);
    if (SILENT.has(name)) continue;
    if (!option) {
      problems.push({ line: index, text: `${word}: not known to this form, sbatch may take it` });
      return found;
    }
    const value = (long ? long[2] : short?.[2] || undefined) ?? (option.isSwitch ? "" : words[++at]);
    if (value === undefined) problems.push({ line: index, text: `--${name} needs a value` });
    else found.push({ name, value, line: index });
  }
  return found;
}

/** The options of a script, and what is wrong with its lines. */
export function optionsOf(script: string): { options: ScriptOption[]; problems: LineProblem[] } {
  const problems: LineProblem[] = [];
  const lines = script.split("\n");
  const head = lines.slice(0, headLength(lines));
  const options = head.flatMap((line, index) => (isOptions(line) ? readLine(line, index, problems) : []));
  for (const one of options) {
    if (OPTIONS.get(one.name)?.members(one.value) === null) problems.push({ line: one.line, text: `--${one.name}: "${one.value}" cannot be read` });
  }
  return { options, problems };
}

/** The value of an option: the last one counts. */
export function valueOf(options: readonly ScriptOption[], name: string): string {
  return [...options].reverse().find((one) => one.name === name)?.value ?? "";
}

/** Whether two values of an option mean the same: `1:00:00` and `60`. */
export function isSame(name: string, one: string, other: string): boolean {
  const members = OPTIONS.get(name)?.members;
  return members !== undefined && JSON.stringify(members(one)) === JSON.stringify(members(other));
}

/** The script as a job's description; `base`: what counts where no line says otherwise. */
export function jobOf(script: string, base: Members): Members {
  const last = new Map(optionsOf(script).options.map((one) => [one.name, one.value]));
  const job: Members = { ...base, script };
  for (const [name, value] of last) {
    const members = OPTIONS.get(name)?.members(value) ?? {};
    const before = job["tres_per_node"];
    Object.assign(job, members);
    if (before && members["tres_per_node"]) job["tres_per_node"] = `${String(before)},${String(members["tres_per_node"])}`;
  }
  return job;
}

function written(one: ScriptOption): string {
  if (OPTIONS.get(one.name)?.isSwitch && !one.value) return `--${one.name}`;
  const value = /[\s"'\\#]/.test(one.value) ? `"${one.value.replace(/["\\]/g, "\\$&")}"` : one.value;
  return `--${one.name}=${value}`;
}

/** The script with another value of an option; "" removes it. Lines that do not have it stay as they are. */
export function withOption(script: string, name: string, value: string): string {
  const lines = script.split("\n");
  const { options } = optionsOf(script);
  const mine = options.filter((one) => one.name === name);
  const clean = value.replace(/[\r\n]/g, " ");
  const kept = mine.at(-1)?.line;
  const made = lines.flatMap((line, index) => {
    if (!mine.some((one) => one.line === index)) return [line];
    const others = options.filter((one) => one.line === index && one.name !== name);
    const all = index === kept && clean ? [...others, { name, value: clean, line: index }] : others;
    return all.length ? [["#SBATCH", ...all.map(written), split(line).comment].filter(Boolean).join(" ")] : [];
  });
  if (kept !== undefined || !clean) return made.join("\n");
  const head = lines.slice(0, headLength(lines));
  const after = head.reduce((last, line, index) => (isOptions(line) || line.startsWith("#!") ? index : last), -1);
  made.splice(after + 1, 0, `#SBATCH ${written({ name, value: clean, line: 0 })}`);
  return made.join("\n");
}
