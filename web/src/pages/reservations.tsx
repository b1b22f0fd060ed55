import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { type Session, session, SLURM } from "../api/client";
import { useAnswer } from "../api/live";
import type { ReservationInfo, ReservationsAnswer } from "../api/types";
import { link } from "../lib/route";
import { words } from "../lib/states";
import { useStore } from "../lib/store";
import { duration, fullTime } from "../lib/units";
import { Chip, Time } from "../parts/bits";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";
import { NewReservation, ReservationDialog, type ReservationRights } from "./reservationchange";

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

/** The columns, with one of buttons for those who may change something. */
function columnsFor(rows: readonly ReservationInfo[], rights: (row: ReservationInfo) => ReservationRights, change: (name: string) => void): readonly Column<ReservationInfo>[] {
  const may = (row: ReservationInfo): boolean => { const found = rights(row); return found.settings || found.remove; };
  if (!rows.some(may)) return COLUMNS;
  const column: Column<ReservationInfo> = {
    id: "change", title: "Change", width: 6.5, isUnordered: true, value: (row) => (may(row) ? "yes" : ""),
    show: (row) => may(row) && <button type="button" class="small" aria-label={`Change ${row.name}`} onClick={() => change(row.name)}>Change</button>,
  };
  return [...COLUMNS.slice(0, 2), column, ...COLUMNS.slice(2)];
}

/** What to offer; the controller decides. Users of a reservation with USER_DELETE may remove it. */
function rightsOf(me: Session | null | undefined): (row: ReservationInfo) => ReservationRights {
  if (me?.manages) return () => ({ settings: true, remove: true });
  return (row) => ({ settings: false, remove: row.flags.includes("USER_DELETE") && row.users.split(",").includes(me?.user ?? "") });
}

export function Reservations(): JSX.Element {
  const answer = useAnswer<ReservationsAnswer>(`${SLURM}/reservations`);
  const me = useStore(session);
  const [changed, setChanged] = useState("");
  const [isNew, setNew] = useState(false);
  const rows = answer.data?.reservations;
  const rights = useMemo(() => rightsOf(me), [me]);
  const columns = useMemo(() => columnsFor(rows ?? [], rights, setChanged), [rows, rights]);
  const row = rows?.find((one) => one.name === changed);
  return (
    <TablePage
      title="Reservations" rows={rows} error={answer.error} columns={columns} order="start" rowKey={(row) => row.name}
      open={(row) => link(["nodes"], new URLSearchParams({ q: row.name }))} empty="Nothing is reserved."
      tools={me?.manages && <button type="button" onClick={() => setNew(true)}>New reservation</button>}
    >
      {row && <ReservationDialog key={row.name} one={row} may={rights(row)} onClose={() => setChanged("")} />}
      {isNew && <NewReservation onClose={() => setNew(false)} />}
    </TablePage>
  );
}
