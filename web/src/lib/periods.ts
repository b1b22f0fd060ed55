/** Periods of a report, in the viewer's zone. */

export const PERIODS = {
  today: "Today", yesterday: "Yesterday", week: "Last 7 days", days30: "Last 30 days", month: "This month", lastmonth: "Last month",
  year: "This year", dates: "From … to …",
} as const;
export type Period = keyof typeof PERIODS;

export function isPeriod(text: string): text is Period {
  return Object.hasOwn(PERIODS, text);
}

/** Its begin and end in seconds since 1970; null: the dates are none. `from`, `to`: of "dates", both days are in it. */
export function bounds(period: Period, from: string, to: string, now: Date = new Date()): [number, number] | null {
  const [year, month, day] = [now.getFullYear(), now.getMonth(), now.getDate()];
  const at = (y: number, m: number, d: number): number => new Date(y, m, d).getTime() / 1000;
  const end = Math.ceil(now.getTime() / 1000);
  switch (period) {
    case "today": return [at(year, month, day), end];
    case "yesterday": return [at(year, month, day - 1), at(year, month, day)];
    case "week": return [at(year, month, day - 6), end];
    case "days30": return [at(year, month, day - 29), end];
    case "month": return [at(year, month, 1), end];
    case "lastmonth": return [at(year, month - 1, 1), at(year, month, 1)];
    case "year": return [at(year, 0, 1), end];
    case "dates": {
      const [first, last] = [from, to].map((text) => /^(\d{4})-(\d\d)-(\d\d)$/.exec(text)?.slice(1).map(Number));
      if (!first || !last) return null;
      const range: [number, number] = [at(first[0] ?? 0, (first[1] ?? 1) - 1, first[2] ?? 1), at(last[0] ?? 0, (last[1] ?? 1) - 1, (last[2] ?? 1) + 1)];
      return range[0] < range[1] ? range : null;
    }
  }
}
