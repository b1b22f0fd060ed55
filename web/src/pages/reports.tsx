import type { ComponentType, JSX } from "preact";
import { useMemo } from "preact/hooks";

import { OWN, SLURMDB } from "../api/client";
import { useAnswer } from "../api/live";
import type { TresAnswer, UsageAnswer } from "../api/types";
import { bounds, isPeriod, type Period, PERIODS } from "../lib/periods";
import { link, route, setQuery } from "../lib/route";
import { useStore } from "../lib/store";
import { tresName } from "../lib/tres";
import { fullTime } from "../lib/units";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";
import { EfficiencyReport, hours, keyColumns, OWNERS, type ReportProps, WAIT_GROUPS, WaitsReport, WASTE_GROUPS, WasteReport } from "./jobreports";
import { UseByOwner, UseByType, UseOverTime } from "./lastday";

/** Reports of a period: use of the cluster, in the figures of sreport, and what is made from jobs. */

interface Kind {
  readonly title: string;
  readonly groups: Readonly<Record<string, string>>;
  /** Of `groups`, unless another is chosen. */
  readonly by: string;
  readonly page: ComponentType<ReportProps>;
}

const USE: Kind = { title: "Use", groups: OWNERS, by: "account,user", page: UseReport };
/** By their word in the address. */
const KINDS: ReadonlyMap<string, Kind> = new Map([
  ["use", USE],
  ["efficiency", { title: "Efficiency", groups: OWNERS, by: "account", page: EfficiencyReport }],
  ["unused", { title: "Unused GPUs", groups: WASTE_GROUPS, by: "user", page: WasteReport }],
  ["waits", { title: "Waits", groups: WAIT_GROUPS, by: "partition,gpu_type", page: WaitsReport }],
]);
const GPU = "gres/gpu";
/** The answer's hours are whole: the question changes this often. */
const HOUR_S = 3600;
/** A longer period has more hours than a chart can show. */
const CHART_S_MAX = 31 * 86400;

interface Row {
  readonly keys: readonly string[];
  readonly cpu_s: number;
  readonly gpu_s: number;
  /** Of GPUs of a type, by its TRES. */
  readonly type_s: ReadonlyMap<string, number>;
}

/** One row for each group, of the answer's one for each TRES. */
export function usageRows(answer: UsageAnswer): Row[] {
  const found = new Map<string, { keys: readonly string[]; tres: Map<string, number> }>();
  for (const one of answer.rows) {
    const id = JSON.stringify(one.keys);
    const row = found.get(id) ?? { keys: one.keys, tres: new Map<string, number>() };
    found.set(id, row);
    row.tres.set(one.tres, (row.tres.get(one.tres) ?? 0) + (one.values[0] ?? 0));
  }
  return [...found.values()].map(({ keys, tres }) => ({ keys, cpu_s: tres.get("cpu") ?? 0, gpu_s: tres.get(GPU) ?? 0, type_s: tres }));
}

/** The types of GPU that are counted, as TRES. */
export function gpuTypes(answer: TresAnswer): string[] {
  return answer.TRES.filter((one) => one.type === "gres" && one.name.startsWith("gpu:")).map((one) => `gres/${one.name}`).sort();
}

function percent(id: string, title: string, seconds: (row: Row) => number, rows: readonly Row[]): Column<Row> {
  const total = rows.reduce((sum, row) => sum + seconds(row), 0);
  return { id, title, value: seconds, text: (row) => (total ? `${((100 * seconds(row)) / total).toFixed(1)} %` : ""), width: 8, isNumber: true };
}

function ownerTitle(owner: string): string {
  return (OWNERS[owner] ?? owner).replace(/^[A-Z](?=[a-z])/u, (letter) => letter.toLowerCase());
}

export function Reports(): JSX.Element {
  const { query } = useStore(route);
  const asked = query.get("period") ?? "";
  const period: Period = isPeriod(asked) ? asked : "days30";
  const name = query.get("report") ?? "";
  const id = KINDS.has(name) ? name : "use";
  const kind = KINDS.get(id) ?? USE;
  const wanted = query.get("by") ?? "";
  const by = Object.hasOwn(kind.groups, wanted) ? wanted : kind.by;
  const range = bounds(period, query.get("from") ?? "", query.get("to") ?? "");
  const times = range ? `start=${range[0]}&end=${Math.ceil(range[1] / HOUR_S) * HOUR_S}` : "";
  const Page = kind.page;
  return <Page key={id} period={times} lengthS={range ? range[1] - range[0] : 0} by={by} tools={<Choice period={period} by={by} id={id} kind={kind} />} />;
}

function UseReport({ period, lengthS, by, tools }: ReportProps): JSX.Element {
  const counted = useAnswer<TresAnswer>(`${SLURMDB}/tres`);
  const types = useMemo(() => (counted.data ? gpuTypes(counted.data) : []), [counted.data]);
  const isKnown = Boolean(counted.data ?? counted.error);
  const tres = ["cpu", GPU, ...types].map(encodeURIComponent).join(",");
  const answer = useAnswer<UsageAnswer>(period && isKnown ? `${OWN}/usage?group_by=${by}&tres=${tres}&${period}` : "");
  const hasGpus = (answer.data?.rows ?? []).some((one) => one.tres === GPU);
  const owner = by.split(",")[0] ?? by;
  const isShort = period !== "" && lengthS <= CHART_S_MAX;
  const rows = useMemo(() => (answer.data ? usageRows(answer.data) : undefined), [answer.data]);
  const columns = useMemo<readonly Column<Row>[]>(() => [
    ...keyColumns<Row>(by),
    hours<Row>("cpu", "CPU hours", (row) => row.cpu_s),
    percent("cpushare", "Share of CPUs", (row) => row.cpu_s, rows ?? []),
    hours<Row>("gpu", "GPU hours", (row) => row.gpu_s),
    percent("gpushare", "Share of GPUs", (row) => row.gpu_s, rows ?? []),
    ...types.map((type) => hours<Row>(type, `${tresName(type)} hours`, (row) => row.type_s.get(type) ?? 0)),
  ], [by, rows, types]);
  const upTo = answer.data?.rolled_up_to_us ?? 0;
  return (
    <TablePage
      title="Reports" rows={period ? rows : []} error={answer.error} columns={columns} order="-cpu" rowKey={(row) => JSON.stringify(row.keys)}
      open={(row) => link(["jobs"], new URLSearchParams({ q: row.keys.filter(Boolean).join(" ") }))}
      empty={period ? "Nothing was used in this period." : "Choose two dates, the earlier one first."} tools={tools}
    >
      {answer.data && (
        <p class="faint">
          {`${fullTime(answer.data.start_at_us)} to ${fullTime(answer.data.end_at_us)}`}
          {upTo > 0 && upTo < answer.data.end_at_us ? `; complete up to ${fullTime(upTo)}` : ""}
        </p>
      )}
      {isShort && <UseOverTime title="The whole cluster over this period" period={period} hasGpus={hasGpus} />}
      {isShort && rows && rows.length > 0 && <UseByOwner title={`Most use by ${ownerTitle(owner)}`} period={period} by={owner} hasGpus={hasGpus} />}
      {isShort && hasGpus && types.length > 0 && <UseByType period={period} types={types} />}
    </TablePage>
  );
}

function Choice({ period, by, id, kind }: { period: Period; by: string; id: string; kind: Kind }): JSX.Element {
  const { query } = useStore(route);
  const day = (name: "from" | "to", label: string): JSX.Element => (
    <input type="date" aria-label={label} value={query.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value })} />
  );
  return (
    <>
      <select aria-label="Report" value={id} onChange={(event) => setQuery({ report: event.currentTarget.value, by: "", sort: "", cols: "", q: "" })}>
        {[...KINDS].map(([name, one]) => <option key={name} value={name}>{one.title}</option>)}
      </select>
      <select aria-label="Period" value={period} onChange={(event) => setQuery({ period: event.currentTarget.value })}>
        {Object.entries(PERIODS).map(([name, title]) => <option key={name} value={name}>{title}</option>)}
      </select>
      {period === "dates" && <>{day("from", "First day")}{day("to", "Last day")}</>}
      <select aria-label="By" value={by} onChange={(event) => setQuery({ by: event.currentTarget.value, sort: "" })}>
        {Object.entries(kind.groups).map(([name, title]) => <option key={name} value={name}>{`By ${title.toLowerCase().replace("qos", "QOS").replace("gpu", "GPU")}`}</option>)}
      </select>
    </>
  );
}
