import type { JSX } from "preact";

import { SLURM } from "../api/client";
import { useAnswer } from "../api/live";
import type { ReservationInfo, ReservationsAnswer } from "../api/types";
import { link } from "../lib/route";
import { words } from "../lib/states";
import { duration, fullTime } from "../lib/units";
import { Chip, Time } from "../parts/bits";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";

function stateOf(one: ReservationInfo): "Active" | "Planned" | "Over" {
  const now = Date.now() / 1000;
  return one.start_time.number > now ? "Planned" : one.end_time.number > now ? "Active" : "Over";
}

const TONES = { Active: "run", Planned: "wait", Over: "off" } as const;

function time(id: string, title: string, at: (row: ReservationInfo) => number): Column<ReservationInfo> {
  return { id, title, value: at, text: (row) => fullTime(at(row) * 1e6), show: (row) => <Time us={at(row) * 1e6} />, width: 8.5 };
}

function length(row: ReservationInfo): number {
  return row.end_time.number - row.start_time.number;
}

const COLUMNS: readonly Column<ReservationInfo>[] = [
  { id: "name", title: "Name", value: (row) => row.name, show: (row) => <b>{row.name}</b>, width: 11 },
  { id: "state", title: "State", value: stateOf, show: (row) => <Chip tone={TONES[stateOf(row)]}>{stateOf(row)}</Chip>, width: 6.5 },
  time("start", "Start", (row) => row.start_time.number),
  time("end", "End", (row) => row.end_time.number),
  { id: "length", title: "Length", value: length, text: (row) => duration(length(row)), width: 7, isNumber: true },
  { id: "count", title: "Nodes", value: (row) => row.node_count, width: 5, isNumber: true },
  { id: "nodes", title: "Node list", value: (row) => row.node_list, width: 9 },
  { id: "users", title: "Users", value: (row) => row.users, width: 9 },
  { id: "accounts", title: "Accounts", value: (row) => row.accounts, width: 9 },
  { id: "flags", title: "Flags", value: (row) => row.flags.map(words).join(", "), width: 12 },
  { id: "partition", title: "Partition", value: (row) => row.partition, width: 7, isHidden: true },
  { id: "groups", title: "Groups", value: (row) => row.groups, width: 8, isHidden: true },
  { id: "tres", title: "Resources", value: (row) => row.tres, width: 11, isHidden: true },
  { id: "cores", title: "Cores", value: (row) => row.core_count, width: 5, isNumber: true, isHidden: true },
  { id: "features", title: "Features", value: (row) => row.features, width: 8, isHidden: true },
  { id: "licenses", title: "Licenses", value: (row) => row.licenses, width: 8, isHidden: true },
];

export function Reservations(): JSX.Element {
  const answer = useAnswer<ReservationsAnswer>(`${SLURM}/reservations`);
  return (
    <TablePage
      title="Reservations" rows={answer.data?.reservations} error={answer.error} columns={COLUMNS} order="start" rowKey={(row) => row.name}
      open={(row) => link(["nodes"], new URLSearchParams({ q: row.name }))} empty="Nothing is reserved."
    />
  );
}
