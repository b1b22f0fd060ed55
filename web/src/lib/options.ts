import { SBATCH_OPTIONS, type SbatchOption } from "../api/sbatch";
import { minutes, set } from "./model";

/**
 * The options in a script's #SBATCH lines, and the job that they describe as the REST interface takes it. The interface does not
 * read these lines, so what is not known here is a problem and never ignored. Names, letters and kinds of options are sbatch's own
 * table; the lines are read by the rules of cli/jobs/script.py and cli/base/options.py. The scripts of web/cases are read here and
 * by sbatch, and both have to make the same jobs of them (options.test.ts, tests/rest/test_web_scripts.py).
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

/** The members that an option sets; null: the value cannot be read. */
type MembersOf = (value: string) => Members | null;

function text(member: string): MembersOf {
  return (value) => ({ [member]: value });
}

function number(member: string): MembersOf {
  return (value) => (/^-?\d{1,9}$/.test(value) ? { [member]: Number(value) } : null);
}

function list(member: string): MembersOf {
  return (value) => ({ [member]: value.split(",").filter(Boolean) });
}

function mebibytes(member: string): MembersOf {
  return (value) => {
    const mb = memoryMb(value);
    return mb === null ? null : { [member]: set(mb) };
  };
}

function yes(members: Members): MembersOf {
  return () => members;
}

function limitOf(value: string): Members | null {
  if (/^(-1|infinite|unlimited)$/i.test(value)) return { time_limit: { set: true, infinite: true, number: 0 } };
  const found = minutes(value);
  return found === null ? null : { time_limit: set(found) };
}

const MAIL_ALL = ["BEGIN", "END", "FAIL", "INVALID_DEPENDENCY", "REQUEUE", "STAGE_OUT"];
/** The interface's words for those of --mail-type that it names otherwise. */
const MAIL: ReadonlyMap<string, readonly string[]> = new Map([
  ["ALL", MAIL_ALL], ["INVALID_DEPEND", ["INVALID_DEPENDENCY"]], ["TIME_LIMIT", ["TIME=100%"]], ["TIME_LIMIT_90", ["TIME=90%"]],
  ["TIME_LIMIT_80", ["TIME=80%"]], ["TIME_LIMIT_50", ["TIME=50%"]],
]);

function mail(value: string): Members {
  const words = value.toUpperCase().split(",").filter(Boolean);
  return { mail_type: words.includes("NONE") ? [] : words.flatMap((word) => MAIL.get(word) ?? [word]) };
}

/** Of these the last line counts, and one line has one of them. */
const MEMORY = new Set(["mem", "mem-per-cpu"]);
/** A map and no object: a script may name any word, `constructor` too. */
const OPTIONS: ReadonlyMap<string, MembersOf> = new Map<string, MembersOf>(Object.entries({
  "account": text("account"), "array": text("array"), "comment": text("comment"), "constraint": text("constraints"),
  "dependency": text("dependency"), "distribution": text("distribution"), "extra": text("extra"),
  "licenses": text("licenses"), "mail-user": text("mail_user"), "nodes": text("nodes"), "partition": text("partition"),
  "prefer": text("prefer"), "qos": text("qos"), "reservation": text("reservation"), "wckey": text("wckey"),
  "job-name": text("name"), "output": text("standard_output"), "error": text("standard_error"),
  "input": text("standard_input"), "chdir": text("current_working_directory"),
  "cpus-per-task": number("cpus_per_task"), "ntasks": number("tasks"), "ntasks-per-node": number("tasks_per_node"),
  "ntasks-per-socket": number("tasks_per_socket"), "ntasks-per-core": number("tasks_per_core"), "mincpus": number("minimum_cpus_per_node"),
  "nice": number("nice"), "mem": mebibytes("memory_per_node"), "mem-per-cpu": mebibytes("memory_per_cpu"), "time": limitOf,
  "gpus": (value) => ({ tres_per_job: `gres/gpu:${value}` }),
  "gpus-per-node": (value) => ({ tres_per_node: `gres/gpu:${value}` }),
  "gpus-per-task": (value) => ({ tres_per_task: `gres/gpu:${value}` }),
  "gres": (value) => ({ tres_per_node: value.split(",").map((one) => `gres/${one}`).join(",") }),
  "nodelist": list("required_nodes"), "exclude": list("excluded_nodes"),
  "mail-type": mail,
  "open-mode": (value) => ({ open_mode: [value.toUpperCase()] }),
  "exclusive": (value) => ({ shared: [value || "none"] }), "oversubscribe": yes({ shared: ["oversubscribe"] }),
  "hold": yes({ hold: true }), "overcommit": yes({ overcommit: true }), "contiguous": yes({ contiguous: true }),
  "requeue": yes({ requeue: true }), "no-requeue": yes({ requeue: false }),
} satisfies Record<string, MembersOf>));
/** What changes the job nothing here, and is no mistake in a script. */
const SILENT = new Set(["parsable", "quiet", "verbose"]);
const NAMED: ReadonlyMap<string, SbatchOption> = new Map(SBATCH_OPTIONS.map((one) => [one.name, one]));
const LETTERED: ReadonlyMap<string, SbatchOption> = new Map(SBATCH_OPTIONS.filter((one) => one.short).map((one) => [one.short, one]));
/** The option of a member, for what the controller says of it. */
export const OPTION_OF: ReadonlyMap<string, string> = new Map(
  [...OPTIONS].reverse().flatMap(([name, members]) => Object.keys(members("1") ?? {}).map((member) => [member, name])),
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
  readonly isWhole: boolean;
}

const MARK = "#SBATCH";
/** What separates words: Python's isspace, which is not \s. */
// eslint-disable-next-line no-control-regex -- U+001C to U+001F are blanks there
const BLANK = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/** The words of an #SBATCH line: quotes of both kinds and a backslash protect, a backslash in quotes too, and a # ends it. */
function split(line: string): Line {
  const words: string[] = [];
  let [quote, isOpen, isEscaped] = ["", false, false];
  const add = (sign: string): void => {
    words[words.length - 1] += sign;
  };
  for (let at = MARK.length; at < line.length; at++) {
    const sign = line.charAt(at);
    if (!isOpen) {
      if (BLANK.test(sign)) continue;
      if (sign !== "#") words.push("");
      isOpen = true;
    }
    if (isEscaped) {
      add(sign);
      isEscaped = false;
    } else if (sign === "\\") isEscaped = true;
    else if (sign === quote) quote = "";
    else if (quote) add(sign);
    else if (sign === '"' || sign === "'") quote = sign;
    else if (sign === "#") return { words, comment: line.slice(at), isWhole: true };
    else if (BLANK.test(sign)) isOpen = false;
    else add(sign);
  }
  return { words, comment: "", isWhole: quote === "" };
}

function isOptions(line: string): boolean {
  return line.startsWith(MARK);
}

/** How many lines from the first have a say: up to the first command. */
function headLength(lines: readonly string[]): number {
  const end = lines.findIndex((line) => /^[ \t\r\v\f]*[^# \t\r\v\f]/.test(line));
  return end < 0 ? lines.length : end;
}

/** The option of a word's name: one of Slurm's may be abbreviated. */
function listed(name: string): SbatchOption | undefined {
  const exact = NAMED.get(name);
  const near = exact ? [] : SBATCH_OPTIONS.filter((one) => !one.isOwn && one.name.startsWith(name));
  return exact ?? (near.length === 1 ? near[0] : undefined);
}

/** What a word that begins with - says: options, each with its value if it has one in the word. */
function spoken(word: string): { option: SbatchOption; value: string | undefined }[] | null {
  if (word.startsWith("--")) {
    const [, name = "", value] = /^--([^=]*)(?:=([^]*))?$/.exec(word) ?? [];
    const option = name ? listed(name) : undefined;
    return option && !(option.kind === "no" && value !== undefined) ? [{ option, value }] : null;
  }
  const found = [];
  for (let at = 1; at < word.length; at++) {
    const option = LETTERED.get(word.charAt(at));
    if (!option) return null;
    found.push({ option, value: option.kind === "no" ? undefined : word.slice(at + 1) || undefined });
    if (option.kind !== "no") break;
  }
  return found.length ? found : null;
}

function readLine(line: string, index: number, problems: LineProblem[]): ScriptOption[] {
  const { words, isWhole } = split(line);
  const found: ScriptOption[] = [];
  const problem = (said: string): ScriptOption[] => {
    problems.push({ line: index, text: said });
    return found;
  };
  if (!isWhole) return problem("a quote has no end");
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    const options = word.startsWith("-") ? spoken(word) : null;
    for (const { option, value: written } of options ?? []) {
      if (SILENT.has(option.name)) continue;
      if (!OPTIONS.has(option.name)) return problem(`${word}: not known to this form, sbatch may take it`);
      const value = written ?? (option.kind === "yes" ? words[++at] : "");
      if (value === undefined) return problem(`--${option.name} needs a value`);
      found.push({ name: option.name, value, line: index });
    }
    if (!options) return problem(`${word}: not known to this form, sbatch may take it`);
  }
  return found;
}

/** The options of a script, and what is wrong with its lines. */
export function optionsOf(script: string): { options: ScriptOption[]; problems: LineProblem[] } {
  const problems: LineProblem[] = [];
  const lines = script.split("\n");
  const head = lines.slice(0, headLength(lines));
  const options = head.flatMap((line, index) => (isOptions(line) ? readLine(line, index, problems) : []));
  head.forEach((line, index) => {
    if (/^#(PBS|BSUB)/.test(line)) problems.push({ line: index, text: `${line.slice(0, 5).trim()}: sbatch reads this line, this form does not` });
  });
  for (const one of options) {
    if (one.name === "mem" && options.some((other) => other.name !== "mem" && MEMORY.has(other.name) && other.line === one.line)) {
      problems.push({ line: one.line, text: "--mem and --mem-per-cpu: one of them" });
    }
    if (OPTIONS.get(one.name)?.(one.value) === null) problems.push({ line: one.line, text: `--${one.name}: "${one.value}" cannot be read` });
  }
  return { options, problems };
}

/** The value of an option: the last one counts. */
export function valueOf(options: readonly ScriptOption[], name: string): string {
  return [...options].reverse().find((one) => one.name === name)?.value ?? "";
}

/** Whether two values of an option mean the same: `1:00:00` and `60`. */
export function isSame(name: string, one: string, other: string): boolean {
  const members = OPTIONS.get(name);
  return members !== undefined && JSON.stringify(members(one)) === JSON.stringify(members(other));
}

function replaces(later: ScriptOption, one: ScriptOption): boolean {
  return later.name === one.name || (MEMORY.has(later.name) && MEMORY.has(one.name));
}

/** The script as a job's description; `base`: what counts where no line says otherwise. */
export function jobOf(script: string, base: Members): Members {
  const { options } = optionsOf(script);
  const last = options.filter((one, at) => !options.slice(at + 1).some((later) => replaces(later, one)));
  const job: Members = { ...base, script };
  for (const { name, value } of last) {
    const members = OPTIONS.get(name)?.(value) ?? {};
    const before = job["tres_per_node"];
    Object.assign(job, members);
    if (before && members["tres_per_node"]) job["tres_per_node"] = `${String(before)},${String(members["tres_per_node"])}`;
  }
  return job;
}

function written(one: ScriptOption): string {
  if (NAMED.get(one.name)?.kind !== "yes" && !one.value) return `--${one.name}`;
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
