/** Numbers and times as they are shown: every number with its unit, times in the viewer's zone. */

const NONE = "–";

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** `1 node has`, `2 nodes have`, with the number in front of either form. */
export function does(number: number, one: string, several: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : several}`;
}

export function memory(mb: number): string {
  if (mb >= 1024 * 1024) return `${trimmed(mb / 1024 / 1024)} TiB`;
  return mb >= 1024 ? `${trimmed(mb / 1024)} GiB` : `${mb} MiB`;
}

function trimmed(value: number): string {
  return value >= 100 ? Math.round(value).toString() : value.toFixed(1).replace(/\.0$/, "");
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** `512 B`, `1.5 GiB`. */
export function bytes(size: number): string {
  let [value, power] = [size, 0];
  while (value >= 1024 && power + 1 < SIZES.length) [value, power] = [value / 1024, power + 1];
  return `${trimmed(value)} ${SIZES[power] ?? ""}`;
}

/** `0.4 %`, `37 %`. */
export function percent(share: number): string {
  return `${share > 0 && share < 10 ? trimmed(share) : Math.round(share).toString()} %`;
}

/** `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

export function limit(seconds: number): string {
  return seconds < 0 ? "unlimited" : duration(seconds);
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const CLOCK_S = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY_ALONE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** A time, short: the hour today, with its day otherwise. 0: none. */
export function moment(us: number, now: Date = new Date()): string {
  if (us <= 0) return NONE;
  const date = new Date(us / 1000);
  if (date.toDateString() === now.toDateString()) return CLOCK.format(date);
  return date.getFullYear() === now.getFullYear() ? DAY.format(date) : DATE.format(date);
}

/** A tick of an axis of time, `stepS` after the one before: the hour, at midnight the day. */
export function tickText(atS: number, stepS: number): string {
  const date = new Date(atS * 1000);
  if (date.getHours() + date.getMinutes() + date.getSeconds() === 0) return DAY_ALONE.format(date);
  return (stepS < 60 ? CLOCK_S : CLOCK).format(date);
}

/** A time with its zone, for titles. */
export function fullTime(us: number): string {
  return us > 0 ? WHOLE.format(new Date(us / 1000)) : "";
}

/** `in 5 min`, `3 h ago`; farther than a year is no forecast. */
export function relative(us: number, nowUs: number = Date.now() * 1000): string {
  if (us <= 0) return NONE;
  const seconds = (us - nowUs) / 1e6;
  if (seconds > 364 * 86400) return "in more than a year";
  return seconds >= 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

/** The GPUs of a TRES text: `cpu=4,mem=1352M,gres/gpu=6`. */
export function gpusOf(tres: string): number {
  const found = /(?:^|,)gres\/gpu=(\d+)/.exec(tres);
  return found ? Number(found[1]) : 0;
}
