import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { UsageAnswer } from "../api/types";
import { bounds, isPeriod, type Period, PERIODS } from "../lib/periods";
import { link, route, setQuery } from "../lib/route";
import { useStore } from "../lib/store";
import { fullTime } from "../lib/units";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";
import { UseOverTime } from "./lastday";

/** Use of the cluster over a period: the figures of sreport, in hours. */

const GROUPS: Record<string, string> = {
  "account,user": "Account and user", "account": "Account", "user": "User", "qos": "QOS", "partition": "Partition", "wckey": "Wckey",
};
const TITLES: Record<string, string> = { account: "Account", user: "User", qos: "QOS", partition: "Partition", wckey: "Wckey" };
/** The answer's hours are whole: the question changes this often. */
const HOUR_S = 3600;
/** A longer period has more hours than a chart can show. */
const CHART_S_MAX = 31 * 86400;

interface Row {
  readonly keys: readonly string[];
  readonly cpu_s: number;
  readonly gpu_s: number;
}

/** One row for each group, of the answer's one for each TRES. */
export function usageRows(answer: UsageAnswer): Row[] {
  const found = new Map<string, { keys: readonly string[]; cpu_s: number; gpu_s: number }>();
  for (const one of answer.rows) {
    const id = JSON.stringify(one.keys);
    const row = found.get(id) ?? { keys: one.keys, cpu_s: 0, gpu_s: 0 };
    found.set(id, row);
    if (one.tres === "cpu") row.cpu_s += one.values[0] ?? 0;
    else row.gpu_s += one.values[0] ?? 0;
  }
  return [...found.values()];
}

function hours(id: string, title: string, seconds: (row: Row) => number): Column<Row> {
  return { id, title, value: seconds, text: (row) => (seconds(row) / 3600).toFixed(2), width: 8, isNumber: true };
}

function percent(id: string, title: string, seconds: (row: Row) => number, rows: readonly Row[]): Column<Row> {
  const total = rows.reduce((sum, row) => sum + seconds(row), 0);
  return { id, title, value: seconds, text: (row) => (total ? `${((100 * seconds(row)) / total).toFixed(1)} %` : ""), width: 8, isNumber: true };
}

export function Reports(): JSX.Element {
  const { query } = useStore(route);
  const asked = query.get("period") ?? "";
  const period: Period = isPeriod(asked) ? asked : "days30";
  const wanted = query.get("by") ?? "";
  const by = Object.hasOwn(GROUPS, wanted) ? wanted : "account,user";
  const range = bounds(period, query.get("from") ?? "", query.get("to") ?? "");
  const path = range ? `${OWN}/usage?start=${range[0]}&end=${Math.ceil(range[1] / HOUR_S) * HOUR_S}&group_by=${by}` : "";
  const answer = useAnswer<UsageAnswer>(path);
  const hoursPath = range && range[1] - range[0] <= CHART_S_MAX ? `start=${range[0]}&end=${Math.ceil(range[1] / HOUR_S) * HOUR_S}` : "";
  const rows = useMemo(() => (answer.data ? usageRows(answer.data) : undefined), [answer.data]);
  const columns = useMemo<readonly Column<Row>[]>(() => [
    ...by.split(",").map((name, index): Column<Row> => ({ id: name, title: TITLES[name] ?? name, value: (row) => row.keys[index] ?? "", width: 12 })),
    hours("cpu", "CPU hours", (row) => row.cpu_s),
    percent("cpushare", "Share of CPUs", (row) => row.cpu_s, rows ?? []),
    hours("gpu", "GPU hours", (row) => row.gpu_s),
    percent("gpushare", "Share of GPUs", (row) => row.gpu_s, rows ?? []),
  ], [by, rows]);
  const upTo = answer.data?.rolled_up_to_us ?? 0;
  return (
    <TablePage
      title="Reports" rows={range ? rows : []} error={answer.error} columns={columns} order="-cpu" rowKey={(row) => JSON.stringify(row.keys)}
      open={(row) => link(["jobs"], new URLSearchParams({ q: row.keys.filter(Boolean).join(" ") }))}
      empty={range ? "Nothing was used in this period." : "Choose two dates, the earlier one first."} tools={<Choice period={period} by={by} />}
    >
      {answer.data && (
        <p class="faint">
          {`${fullTime(answer.data.start_at_us)} to ${fullTime(answer.data.end_at_us)}`}
          {upTo > 0 && upTo < answer.data.end_at_us ? `; complete up to ${fullTime(upTo)}` : ""}
        </p>
      )}
      {hoursPath && (
        <UseOverTime title="The whole cluster over this period" period={hoursPath} hasGpus={(answer.data?.rows ?? []).some((one) => one.tres === "gres/gpu")} />
      )}
    </TablePage>
  );
}

function Choice({ period, by }: { period: Period; by: string }): JSX.Element {
  const { query } = useStore(route);
  const day = (name: "from" | "to", label: string): JSX.Element => (
    <input type="date" aria-label={label} value={query.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value })} />
  );
  return (
    <>
      <select aria-label="Period" value={period} onChange={(event) => setQuery({ period: event.currentTarget.value })}>
        {Object.entries(PERIODS).map(([name, title]) => <option key={name} value={name}>{title}</option>)}
      </select>
      {period === "dates" && <>{day("from", "First day")}{day("to", "Last day")}</>}
      <select aria-label="By" value={by} onChange={(event) => setQuery({ by: event.currentTarget.value, sort: "" })}>
        {Object.entries(GROUPS).map(([name, title]) => <option key={name} value={name}>{`By ${title.toLowerCase().replace("qos", "QOS")}`}</option>)}
      </select>
    </>
  );
}
