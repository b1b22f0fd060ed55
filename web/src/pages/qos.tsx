import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { session, SLURMDB } from "../api/client";
import { useAnswer } from "../api/live";
import type { Qos, QosAnswer } from "../api/types";
import { longest, most, tresText } from "../lib/limits";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { duration } from "../lib/units";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";
import { NewQos, QosDialog } from "./qoschange";

const COLUMNS: readonly Column<Qos>[] = [
  { id: "name", title: "Name", value: (row) => row.name, show: (row) => <b>{row.name}</b>, width: 8 },
  { id: "description", title: "Description", value: (row) => row.description, width: 12 },
  { id: "priority", title: "Priority", value: (row) => row.priority.number, width: 5.5, isNumber: true },
  { id: "factor", title: "Usage factor", value: (row) => row.usage_factor.number, width: 8.5, isNumber: true },
  { id: "preempts", title: "Preempts", value: (row) => row.preempt.list.join(", "), width: 8 },
  { id: "mode", title: "Preempt mode", value: (row) => row.preempt.mode.map(words).join(", "), width: 9.5 },
  { id: "wall", title: "Longest job", value: (row) => longest(row.limits.max.wall_clock.per.job), width: 7 },
  { id: "grptres", title: "Most in all", value: (row) => tresText(row.limits.max.tres.total), width: 12 },
  { id: "jobtres", title: "Most per job", value: (row) => tresText(row.limits.max.tres.per.job), width: 12 },
  { id: "usertres", title: "Most per user", value: (row) => tresText(row.limits.max.tres.per.user), width: 12 },
  { id: "userjobs", title: "Jobs running per user", value: (row) => most(row.limits.max.jobs.active_jobs.per.user), width: 10.5, isNumber: true },
  { id: "submits", title: "Jobs per user", value: (row) => most(row.limits.max.jobs.per.user), width: 7.5, isNumber: true },
  { id: "flags", title: "Flags", value: (row) => row.flags.map(words).join(", "), width: 12 },
  { id: "grace", title: "Grace time", value: (row) => row.limits.grace_time, text: (row) => (row.limits.grace_time ? duration(row.limits.grace_time) : ""), width: 6.5, isHidden: true },
  { id: "accounttres", title: "Most per account", value: (row) => tresText(row.limits.max.tres.per.account), width: 12, isHidden: true },
  { id: "nodetres", title: "Most per node", value: (row) => tresText(row.limits.max.tres.per.node), width: 12, isHidden: true },
  { id: "minutes", title: "Most minutes", value: (row) => tresText(row.limits.max.tres.minutes.total, true), width: 12, isHidden: true },
  { id: "mintres", title: "Least per job", value: (row) => tresText(row.limits.min.tres.per.job), width: 12, isHidden: true },
  { id: "jobs", title: "Jobs running", value: (row) => most(row.limits.max.active_jobs.count), width: 7.5, isNumber: true, isHidden: true },
];

export function QosPage(): JSX.Element {
  const answer = useAnswer<QosAnswer>(`${SLURMDB}/qos`);
  const manages = useStore(session)?.manages ?? false;
  const [changed, setChanged] = useState("");
  const [isNew, setNew] = useState(false);
  const rows = answer.data?.qos;
  const columns = useMemo(() => (manages ? [...COLUMNS.slice(0, 1), changeColumn(setChanged), ...COLUMNS.slice(1)] : COLUMNS), [manages]);
  const row = rows?.find((one) => one.name === changed);
  return (
    <TablePage
      title="QOS" rows={rows} error={answer.error} columns={columns} order="-priority" rowKey={(row) => row.name} empty="There is no QOS."
      tools={manages && <button type="button" onClick={() => setNew(true)}>New QOS</button>}
    >
      {row && <QosDialog key={row.name} one={row} onClose={() => setChanged("")} />}
      {isNew && <NewQos onClose={() => setNew(false)} />}
    </TablePage>
  );
}

/** For those who may change QOS; the controller decides. */
function changeColumn(change: (name: string) => void): Column<Qos> {
  return {
    id: "change", title: "Change", width: 6.5, isUnordered: true, value: () => "",
    show: (row) => <button type="button" class="small" aria-label={`Change ${row.name}`} onClick={() => change(row.name)}>Change</button>,
  };
}
