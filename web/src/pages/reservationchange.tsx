import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { SLURM } from "../api/client";
import type { ReservationInfo } from "../api/types";
import { amountOf, recordOf } from "../lib/changefields";
import { fieldsOf, NEW, NEW_FIELDS } from "../lib/reservationfields";
import { Dialog } from "../parts/bits";
import { Acts, ChangeDialog, sendChange, sendNew } from "../parts/changedialog";

/** Making, changing and removing reservations, as requests to the controller, which decides who may. */

export interface ReservationRights {
  readonly settings: boolean;
  readonly remove: boolean;
}

interface Dialogs {
  onClose: () => void;
}

export function ReservationDialog({ one, may, onClose }: Dialogs & { one: ReservationInfo; may: ReservationRights }): JSX.Element {
  const offered = [...(may.settings ? [["settings", "Settings"] as const] : []), ["remove", "Remove"] as const];
  const [act, setAct] = useState(offered[0]?.[0] ?? "remove");
  const acts = <Acts acts={offered} chosen={act} choose={setAct} />;
  const path = `${SLURM}/reservation/${encodeURIComponent(one.name)}`;
  if (act === "remove") {
    return (
      <Dialog title={`Remove reservation ${one.name}?`} confirm="Remove the reservation" isDangerous isWide onClose={onClose} onConfirm={() => sendChange("DELETE", path)}>
        {acts}
        <p>All jobs may use its nodes then. It cannot be removed while a job runs in it or waits for it.</p>
      </Dialog>
    );
  }
  return (
    <ChangeDialog
      title={`Change reservation ${one.name}`} confirm="Change" fields={fieldsOf(one)} record={one} acts={acts} onClose={onClose}
      note={isChosen(one) ? `The controller has chosen ${one.node_list}; what is written under Nodes takes their place.` : "Jobs that run in it are not touched."}
      send={(changes) => sendChange("POST", `${SLURM}/reservation`, recordOf({ name: one.name }, changes))}
    />
  );
}

function isChosen(one: ReservationInfo): boolean {
  return one.node_list !== "" && !one.flags.includes("SPEC_NODES") && !one.flags.includes("ALL_NODES");
}

export function NewReservation({ onClose }: Dialogs): JSX.Element {
  return (
    <ChangeDialog
      title="New reservation" confirm="Reserve" fields={NEW_FIELDS} record={NEW} isNew onClose={onClose}
      note="Name what is reserved (nodes, a number of them, resources or licenses) and for whom (users, accounts or groups). Without a start it begins now."
      send={(changes) => sendNew(`${SLURM}/reservation`, recordOf({ start_time: amountOf(`${Math.floor(Date.now() / 1000)}`) }, changes), changes)}
    />
  );
}
