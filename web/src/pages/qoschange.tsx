import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { SLURMDB } from "../api/client";
import type { Qos } from "../api/types";
import { recordOf } from "../lib/changefields";
import { fieldsOf, NEW, NEW_FIELDS } from "../lib/qosfields";
import { Dialog } from "../parts/bits";
import { Acts, ChangeDialog, sendChange, sendNew } from "../parts/changedialog";

/** Making, changing and removing QOS, as requests to the controller, which decides who may. */

export function QosDialog({ one, onClose }: { one: Qos; onClose: () => void }): JSX.Element {
  const [act, setAct] = useState<"settings" | "remove">("settings");
  const acts = <Acts acts={[["settings", "Settings"], ["remove", "Remove"]]} chosen={act} choose={setAct} />;
  if (act === "remove") {
    const path = `${SLURMDB}/qos/${encodeURIComponent(one.name)}`;
    return (
      <Dialog title={`Remove QOS ${one.name}?`} confirm="Remove the QOS" isDangerous isWide onClose={onClose} onConfirm={() => sendChange("DELETE", path)}>
        {acts}
        <p>Accounts and users lose it. What jobs used with it stays in the reports.</p>
      </Dialog>
    );
  }
  return (
    <ChangeDialog
      title={`Change QOS ${one.name}`} confirm="Change" fields={fieldsOf(one)} record={one} acts={acts} onClose={onClose}
      note="Empty: no limit. Jobs that run go on; those that wait meet the new limits."
      send={(changes) => sendChange("POST", `${SLURMDB}/qos`, { qos: [recordOf({ name: one.name }, changes)] })}
    />
  );
}

export function NewQos({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <ChangeDialog
      title="New QOS" confirm="Add" fields={NEW_FIELDS} record={NEW} isNew onClose={onClose}
      note="Accounts and users have it when it is among their QOS, on the page Accounts."
      send={async (changes) => {
        if (!changes.some((one) => one.field.id === "name")) throw new Error("Write a name.");
        await sendNew(`${SLURMDB}/qos`, { qos: [recordOf({}, changes)] }, changes);
      }}
    />
  );
}
