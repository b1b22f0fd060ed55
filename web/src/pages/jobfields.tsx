import type { JSX } from "preact";

import { type Remark, session, SLURM, SLURMDB } from "../api/client";
import { useAnswer } from "../api/live";
import type { AssocsAnswer, PartitionsAnswer } from "../api/types";
import { OPTION_OF, type ScriptOption, valueOf } from "../lib/options";
import { useStore } from "../lib/store";

/** The form of a job's options. */

interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
}

const FIELDS: readonly Field[] = [
  { name: "job-name", label: "Name", hint: "job" },
  { name: "partition", label: "Partition", hint: "default" },
  { name: "account", label: "Account", hint: "default" },
  { name: "qos", label: "QOS", hint: "default" },
  { name: "nodes", label: "Nodes", hint: "as needed" },
  { name: "ntasks", label: "Tasks", hint: "1" },
  { name: "cpus-per-task", label: "CPUs per task", hint: "1" },
  { name: "mem", label: "Memory per node", hint: "default, or as 16G" },
  { name: "gpus", label: "GPUs", hint: "none, or as 2 or h100:2" },
  { name: "time", label: "Time limit", hint: "minutes, 1:30:00 or 2-12" },
  { name: "array", label: "Array", hint: "as 0-9 or 1-100%4" },
  { name: "dependency", label: "Dependency", hint: "as afterok:123" },
  { name: "output", label: "Output file", hint: "slurm-%j.out" },
  { name: "chdir", label: "Working directory", hint: "" },
];

/** The remarks on one place; of a field, on the members that it sets. */
export function said(remarks: readonly Remark[], source: string): string[] {
  return remarks.filter((one) => placeOf(one) === source).map((one) => one.description);
}

/** `#/script`, the option of a field, or "": the job as a whole. */
function placeOf(one: Remark): string {
  if (one.source === "#/script") return one.source;
  const option = OPTION_OF.get(one.source.split("/").pop() ?? "") ?? "";
  return FIELDS.some((field) => field.name === option) ? option : "";
}

/** The fields, or some `only`; each with what is said of it. */
export function Fields(props: {
  options: readonly ScriptOption[];
  usual: string;
  remarks: readonly Remark[];
  only?: readonly string[];
  onEdit: (name: string, value: string) => void;
}): JSX.Element {
  const me = useStore(session)?.user ?? "";
  const partitions = useAnswer<PartitionsAnswer>(`${SLURM}/partitions`);
  const mine = useAnswer<AssocsAnswer>(`${SLURMDB}/associations?user=${encodeURIComponent(me)}`);
  const own = mine.data?.associations ?? [];
  const choices: Record<string, string[]> = {
    partition: (partitions.data?.partitions ?? []).map((one) => one.name),
    account: [...new Set(own.map((one) => one.account))],
    qos: [...new Set(own.flatMap((one) => one.qos))],
  };
  return (
    <div class="fields">
      {FIELDS.filter((field) => props.only?.includes(field.name) ?? true).map((field) => {
        const remarks = said(props.remarks, field.name);
        const list = choices[field.name] ?? [];
        return (
          <div key={field.name} class="field">
            <label for={`field-${field.name}`}>{field.label}</label>
            <input
              id={`field-${field.name}`}
              value={valueOf(props.options, field.name)} placeholder={field.name === "chdir" ? props.usual : field.hint} autocomplete="off"
              spellcheck={false} list={list.length ? `list-${field.name}` : undefined} aria-invalid={remarks.length > 0}
              onInput={(event) => props.onEdit(field.name, event.currentTarget.value)}
            />
            {list.length > 0 && <datalist id={`list-${field.name}`}>{list.map((one) => <option key={one} value={one} />)}</datalist>}
            {remarks.map((text) => <span key={text} class="remark" role="alert">{text}</span>)}
          </div>
        );
      })}
    </div>
  );
}
