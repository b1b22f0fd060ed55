import type { Assoc } from "../api/types";
import { minutes } from "./model";

/** Settings of an account, or of a user in one, as texts in Slurm's units; "" is none. What is changed of them becomes a request. */

export interface AccountField {
  readonly id: string;
  readonly title: string;
  /** Its name in sacctmgr, by which the controller's refusals speak of it. */
  readonly keyword: string;
  readonly example: string;
  readonly text: (assoc: Assoc) => string;
  /** The text in its usual form. Throws an Error that says what is wrong, and what to write. */
  readonly usual: (text: string) => string;
  /** The member of the request at `path`; of two usual texts. */
  readonly path: string;
  readonly value: (after: string, before: string) => unknown;
}

interface Amount {
  readonly set: boolean;
  readonly infinite: boolean;
  readonly number: number;
}

const PARENT_SHARES = 2 ** 31 - 1;
const COUNT_MAX = 2 ** 31 - 1;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@+$-]*$/;
const NAME_CHARS_MAX = 128;
const WALL_MIN_MAX = 100 * 365 * 1440;

function isNone(text: string): boolean {
  return text === "" || text === "-1" || /^(unlimited|infinite)$/i.test(text);
}

/** A whole number that fits; null = it is none. */
function whole(text: string, most: number): number | null {
  const number = Number(text);
  return /^\d{1,15}$/.test(text) && number <= most ? number : null;
}

// ---- counts and times

function amountText(amount: Amount): string {
  return amount.set && !amount.infinite ? `${amount.number}` : "";
}

function amountOf(text: string): Amount {
  return { set: text !== "", infinite: text === "", number: text === "" ? 0 : Number(text) };
}

function usualCount(text: string): string {
  if (isNone(text)) return "";
  const number = whole(text, COUNT_MAX);
  if (number === null) throw new Error(`"${text}" is no number of jobs: write a whole number, or nothing for no limit.`);
  return `${number}`;
}

/** Minutes as Slurm shows them: `01:30:00`, `1-00:00:00`. */
export function wallText(total: number): string {
  const days = Math.floor(total / 1440);
  const two = (number: number): string => `${number}`.padStart(2, "0");
  const clock = `${two(Math.floor((total % 1440) / 60))}:${two(total % 60)}:00`;
  return days ? `${days}-${clock}` : clock;
}

function usualWall(text: string): string {
  if (isNone(text)) return "";
  const found = minutes(text);
  if (found === null || found > WALL_MIN_MAX) {
    throw new Error(`"${text}" is no time: write minutes, 12:00:00, or 1-00:00:00 for a day; nothing for no limit.`);
  }
  return wallText(found);
}

function wallOf(text: string): Amount {
  return amountOf(text && `${minutes(text) ?? 0}`);
}

// ---- TRES

const UNITS = "MGTP";

/** Mebibytes with the largest unit that has them exactly, as sacctmgr shows them. */
function memoryText(mb: number): string {
  let power = 0;
  for (; mb > 0 && mb % 1024 === 0 && power < UNITS.length - 1; power++) mb /= 1024;
  return mb === 0 ? "0" : `${mb}${UNITS[power] ?? ""}`;
}

function memoryOf(text: string): number | null {
  const found = /^(\d{1,15})([KMGTP]?)B?$/i.exec(text);
  if (!found) return null;
  const number = Number(found[1]);
  const unit = (found[2] ?? "").toUpperCase();
  const mb = unit === "K" ? Math.ceil(number / 1024) : number * 1024 ** Math.max(0, UNITS.indexOf(unit || "M"));
  return Number.isSafeInteger(mb) ? mb : null;
}

/** The amounts of `cpu=100,mem=64G,gres/gpu=8`, by name. */
function amountsOf(text: string): Map<string, number> {
  const found = new Map<string, number>();
  if (isNone(text)) return found;
  for (const item of text.split(",").map((one) => one.trim())) {
    const [name = "", amount = ""] = item.split("=", 2).map((one) => one.trim());
    if (!/^[A-Za-z]\w*(\/[\w.:-]+)?$/.test(name) || amount === "") {
      throw new Error(`"${item}" is no amount: write name=amount, as cpu=100,mem=64G,gres/gpu=8; nothing for no limit.`);
    }
    const key = name.startsWith("gres/") ? name : name.toLowerCase();
    if (found.has(key)) throw new Error(`${key} is given twice: write it once.`);
    if (amount === "-1") continue;
    const number = key === "mem" ? memoryOf(amount) : whole(amount, Number.MAX_SAFE_INTEGER);
    if (number === null) {
      throw new Error(`"${amount}" is no amount of ${key}: write a whole number${key === "mem" ? " with K, M, G, T or P; M without one" : ""}.`);
    }
    found.set(key, number);
  }
  return found;
}

function amountsText(found: ReadonlyMap<string, number>): string {
  const names = [...found.keys()].sort();
  return names.map((name) => `${name}=${name === "mem" ? memoryText(found.get(name) ?? 0) : found.get(name) ?? 0}`).join(",");
}

/** TRES that a list leaves out stay as they are, so those that go are named. */
function tresList(after: string, before: string): { type: string; name: string; count: number }[] {
  const wanted = amountsOf(after);
  const gone = [...amountsOf(before).keys()].filter((name) => !wanted.has(name)).map((name) => [name, -1] as const);
  return [...wanted, ...gone].map(([key, count]) => {
    const [type = "", ...rest] = key.split("/");
    return { type, name: rest.join("/"), count };
  });
}

function tresOf(of: (max: Assoc["max"]["tres"]) => readonly { type: string; name: string; count: number }[]): (assoc: Assoc) => string {
  return (assoc) => amountsText(new Map(of(assoc.max.tres).map((one) => [one.name ? `${one.type}/${one.name}` : one.type, one.count])));
}

// ---- shares and QOS

function usualShares(text: string): string {
  if (text === "" || text === "-1") return "1";
  if (text.toLowerCase() === "parent") return "parent";
  const number = whole(text, PARENT_SHARES - 1);
  if (number === null) throw new Error(`"${text}" are no shares: write a whole number, or parent for those of the account.`);
  return `${number}`;
}

function usualNames(text: string): string {
  const names = text === "-1" ? [] : [...new Set(text.toLowerCase().split(",").map((one) => one.trim()).filter(Boolean))].sort();
  for (const name of names) checkName(name, "QOS");
  return names.join(",");
}

function usualName(text: string): string {
  if (text === "" || text === "-1") return "";
  checkName(text, "QOS");
  return text.toLowerCase();
}

/** Throws an Error for what can be no name of an account, a user or a QOS. */
export function checkName(text: string, what: string): void {
  if (text.length > NAME_CHARS_MAX || !NAME.test(text)) {
    throw new Error(`"${text}" is no name of ${what === "QOS" ? "a QOS" : what}: letters, digits and _ . @ + $ - only, the first a letter, a digit or _.`);
  }
}

// ---- the table

const TRES_EXAMPLE = "cpu=100,mem=1T,gres/gpu=8";

export const FIELDS: readonly AccountField[] = [
  {
    id: "shares", title: "Shares", keyword: "Fairshare", example: "10, or parent", path: "shares_raw", usual: usualShares,
    text: (one) => (one.shares_raw === PARENT_SHARES ? "parent" : `${one.shares_raw}`),
    value: (after) => (after === "parent" ? PARENT_SHARES : Number(after)),
  },
  {
    id: "running", title: "Running jobs", keyword: "MaxJobs", example: "no limit", path: "max.jobs.active", usual: usualCount,
    text: (one) => amountText(one.max.jobs.active), value: amountOf,
  },
  {
    id: "submit", title: "Jobs in the queue", keyword: "MaxSubmitJobs", example: "no limit", path: "max.jobs.total", usual: usualCount,
    text: (one) => amountText(one.max.jobs.total), value: amountOf,
  },
  {
    id: "wall", title: "Longest job", keyword: "MaxWallDurationPerJob", example: "1-00:00:00", path: "max.jobs.per.wall_clock", usual: usualWall,
    text: (one) => { const found = amountText(one.max.jobs.per.wall_clock); return found && wallText(Number(found)); }, value: wallOf,
  },
  { id: "grptres", title: "Most in all", keyword: "GrpTRES", example: TRES_EXAMPLE, path: "max.tres.total", usual: usualTres, text: tresOf((max) => max.total), value: tresList },
  { id: "jobtres", title: "Most per job", keyword: "MaxTRESPerJob", example: TRES_EXAMPLE, path: "max.tres.per.job", usual: usualTres, text: tresOf((max) => max.per.job), value: tresList },
  {
    id: "minutes", title: "Most TRES minutes", keyword: "GrpTRESMins", example: "gres/gpu=60000", path: "max.tres.group.minutes", usual: usualTres,
    text: tresOf((max) => max.group.minutes), value: tresList,
  },
  {
    id: "qos", title: "QOS", keyword: "QOS", example: "normal,long", path: "qos", usual: usualNames,
    text: (one) => [...one.qos].sort().join(","), value: (after) => (after ? after.split(",") : ["-1"]),
  },
  { id: "defqos", title: "Default QOS", keyword: "DefaultQOS", example: "normal", path: "default.qos", usual: usualName, text: (one) => one.default.qos, value: (after) => after || "-1" },
];

function usualTres(text: string): string {
  return amountsText(amountsOf(text));
}

// ---- what is changed

export interface FieldChange {
  readonly field: AccountField;
  readonly before: string;
  readonly after: string;
}

export interface Edited {
  readonly changes: readonly FieldChange[];
  /** What is wrong, by field. */
  readonly wrong: ReadonlyMap<string, string>;
}

/** What texts that were typed, by field, change of an association. */
export function editedOf(assoc: Assoc, typed: Readonly<Record<string, string>>): Edited {
  const changes: FieldChange[] = [];
  const wrong = new Map<string, string>();
  for (const field of FIELDS) {
    const text = typed[field.id];
    if (text === undefined) continue;
    const before = field.usual(field.text(assoc));
    try {
      const after = field.usual(text.trim());
      if (after !== before) changes.push({ field, before, after });
    } catch (error) {
      wrong.set(field.id, error instanceof Error ? error.message : String(error));
    }
  }
  return { changes, wrong };
}

type Nested = { [name: string]: unknown };

/** The record of POST associations that makes these changes, and no other. */
export function recordOf(assoc: Assoc, changes: readonly FieldChange[]): Nested {
  const record: Nested = { account: assoc.account, user: assoc.user, partition: assoc.partition };
  for (const { field, before, after } of changes) {
    const names = field.path.split(".");
    let at = record;
    for (const name of names.slice(0, -1)) at = (at[name] ??= {}) as Nested;
    at[names.at(-1) ?? ""] = field.value(after, before);
  }
  return record;
}

/** Of the fields that were changed, the one that a refusal speaks of; "" = none of them. */
export function fieldIn(refusal: string, changes: readonly FieldChange[]): string {
  const words = new Set(refusal.toLowerCase().split(/[^a-z]+/));
  const isNamed = (id: string, keyword: string): boolean => words.has(keyword.toLowerCase()) || (id === "defqos" && words.has("qos"));
  return changes.find((one) => isNamed(one.field.id, one.field.keyword))?.field.id ?? "";
}
