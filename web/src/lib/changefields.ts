import { minutes } from "./model";

/** Settings of a record as texts in Slurm's units, "" is none; what is changed of them becomes a request. */

export interface Field<T> {
  readonly id: string;
  readonly title: string;
  /** Its name in sacctmgr or scontrol, by which the controller's refusals speak of it. */
  readonly keyword: string;
  /** Other words by which they do, in lower case. */
  readonly also?: readonly string[];
  /** What is below the input; without it the keyword. */
  readonly hint?: string;
  readonly example: string;
  readonly text: (record: T) => string;
  /** The text in its usual form. Throws an Error that says what is wrong, and what to write. */
  readonly usual: (text: string) => string;
  /** The member of the request at `path`; of two usual texts. Lists at one path are joined. */
  readonly path: string;
  readonly value: (after: string, before: string) => unknown;
  /** Written as `2026-12-01T14:00`, in the browser's zone. */
  readonly isTime?: boolean;
  /** Of these one is taken: values and titles. */
  readonly choices?: readonly (readonly [string, string])[];
  /** Of these any number is taken, the text has their values with commas. */
  readonly several?: readonly (readonly [string, string])[];
  /** The usual text as it is shown. */
  readonly shown?: (text: string) => string;
}

interface Amount {
  readonly set: boolean;
  readonly infinite: boolean;
  readonly number: number;
}

const COUNT_MAX = 2 ** 31 - 1;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@+$-]*$/;
const NAME_CHARS_MAX = 128;
const WALL_MIN_MAX = 100 * 365 * 1440;

export function isNone(text: string): boolean {
  return text === "" || text === "-1" || /^(unlimited|infinite)$/i.test(text);
}

/** A whole number that fits; null = it is none. */
export function whole(text: string, most: number): number | null {
  const number = Number(text);
  return /^\d{1,15}$/.test(text) && number <= most ? number : null;
}

// ---- counts and times

export function amountText(amount: Amount): string {
  return amount.set && !amount.infinite ? `${amount.number}` : "";
}

export function amountOf(text: string): Amount {
  return { set: text !== "", infinite: text === "", number: text === "" ? 0 : Number(text) };
}

export function usualCount(text: string): string {
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

export function usualWall(text: string): string {
  if (isNone(text)) return "";
  const found = minutes(text);
  if (found === null || found > WALL_MIN_MAX) {
    throw new Error(`"${text}" is no time: write minutes, 12:00:00, or 1-00:00:00 for a day; nothing for no limit.`);
  }
  return wallText(found);
}

export function wallOf(text: string): Amount {
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

export function amountsText(found: ReadonlyMap<string, number>): string {
  const names = [...found.keys()].sort();
  return names.map((name) => `${name}=${name === "mem" ? memoryText(found.get(name) ?? 0) : found.get(name) ?? 0}`).join(",");
}

/** TRES that a list leaves out stay as they are, so those that go are named. */
export function tresList(after: string, before: string): { type: string; name: string; count: number }[] {
  const wanted = amountsOf(after);
  const gone = [...amountsOf(before).keys()].filter((name) => !wanted.has(name)).map((name) => [name, -1] as const);
  return [...wanted, ...gone].map(([key, count]) => {
    const [type = "", ...rest] = key.split("/");
    return { type, name: rest.join("/"), count };
  });
}

// ---- names

export function usualNames(text: string): string {
  const names = text === "-1" ? [] : [...new Set(text.toLowerCase().split(",").map((one) => one.trim()).filter(Boolean))].sort();
  for (const name of names) checkName(name, "QOS");
  return names.join(",");
}

export function usualName(text: string): string {
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

export function usualTres(text: string): string {
  return amountsText(amountsOf(text));
}

// ---- what is changed

export interface FieldChange<T> {
  readonly field: Field<T>;
  readonly before: string;
  readonly after: string;
}

export interface Edited<T> {
  readonly changes: readonly FieldChange<T>[];
  /** What is wrong, by field. */
  readonly wrong: ReadonlyMap<string, string>;
}

/** What texts that were typed, by field, change of a record. */
export function editedOf<T>(fields: readonly Field<T>[], record: T, typed: Readonly<Record<string, string>>): Edited<T> {
  const changes: FieldChange<T>[] = [];
  const wrong = new Map<string, string>();
  for (const field of fields) {
    const text = typed[field.id];
    if (text === undefined) continue;
    const before = field.usual(field.text(record));
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

/** The record of a request that makes these changes, and no other; `of` has what names the record. */
export function recordOf<T>(of: Readonly<Nested>, changes: readonly FieldChange<T>[]): Nested {
  const record: Nested = { ...of };
  for (const { field, before, after } of changes) {
    const names = field.path.split(".");
    let at = record;
    for (const name of names.slice(0, -1)) at = (at[name] ??= {}) as Nested;
    const last = names.at(-1) ?? "";
    const [value, present] = [field.value(after, before), at[last]];
    at[last] = Array.isArray(present) && Array.isArray(value) ? [...(present as unknown[]), ...(value as unknown[])] : value;
  }
  return record;
}

/** Of the fields that were changed, the one that a refusal speaks of first; "" = none of them. */
export function fieldIn<T>(refusal: string, changes: readonly FieldChange<T>[]): string {
  for (const word of refusal.toLowerCase().split(/[^a-z]+/)) {
    const found = changes.find(({ field }) => field.keyword.toLowerCase() === word || field.also?.includes(word));
    if (found) return found.field.id;
  }
  return "";
}
