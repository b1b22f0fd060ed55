import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { ApiError, change, SLURMDB } from "../api/client";
import { refresh, useAnswer } from "../api/live";
import type { AccountsAnswer, Assoc } from "../api/types";
import { type AccountField, checkName, editedOf, fieldIn, FIELDS, recordOf } from "../lib/accountfields";
import { type AccountRights, below } from "../lib/accountrights";
import { does } from "../lib/units";
import { Dialog } from "../parts/bits";

/** Changes of an account or of a user in it, as requests to the controller, which decides who may make them. */

type Act = "settings" | "user" | "account" | "remove";

const ROOT = "root";

/** How a row is called: `account lab`, `ann in lab`. */
export function nameOf(one: Assoc): string {
  return one.user ? `${one.user} in ${one.account}${one.partition ? `, partition ${one.partition}` : ""}` : `account ${one.account}`;
}

export function AccountDialog(props: { assoc: Assoc; all: readonly Assoc[]; may: AccountRights; onClose: () => void }): JSX.Element {
  const { assoc, may, onClose } = props;
  const offered: readonly (readonly [Act, string, boolean])[] = [
    ["settings", "Settings", may.settings],
    ["user", "Add a user", may.add],
    ["account", "Add an account", may.add],
    ["remove", "Remove", may.remove],
  ];
  const shown = offered.filter((one) => one[2]);
  const [act, setAct] = useState<Act>(shown[0]?.[0] ?? "settings");
  const acts = shown.length > 1 && (
    <div class="buttons acts" role="group" aria-label="What to change">
      {shown.map(([name, title]) => (
        <button key={name} type="button" class={name === act ? "on" : ""} aria-pressed={name === act} onClick={() => setAct(name)}>{title}</button>
      ))}
    </div>
  );
  const part = { assoc, acts, onClose };
  if (act === "user") return <AddUser key={act} {...part} />;
  if (act === "account") return <AddAccount key={act} {...part} />;
  if (act === "remove") return <Remove key={act} {...part} all={props.all} />;
  return <Settings key={act} {...part} />;
}

interface Part {
  assoc: Assoc;
  acts: JSX.Element | false;
  onClose: () => void;
}

/** Sends a change. What is so already is no failure, unless `unchanged` says why it is one. */
async function send(method: "POST" | "DELETE", path: string, body?: unknown, unchanged = ""): Promise<void> {
  try {
    await change(method, `${SLURMDB}/${path}`, body);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 304) throw new Error(`Nothing was changed. ${error.message}`, { cause: error });
    if (unchanged) throw new Error(unchanged, { cause: error });
  }
  refresh();
}

// ---- settings

function Settings({ assoc, acts, onClose }: Part): JSX.Element {
  const hasDescription = !assoc.user && assoc.account !== ROOT;
  const path = hasDescription ? `${SLURMDB}/account/${encodeURIComponent(assoc.account)}` : "";
  const described = useAnswer<AccountsAnswer>(path).data?.accounts[0]?.description;
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const [text, setText] = useState<string | null>(null);
  const [refused, setRefused] = useState<readonly [string, string]>(["", ""]);
  const { changes, wrong } = editedOf(assoc, typed);
  const description = text !== null && described !== undefined && text.trim() !== described ? text.trim() : null;
  const type = (id: string, value: string): void => {
    setTyped((before) => ({ ...before, [id]: value }));
    if (refused[0] === id) setRefused(["", ""]);
  };
  const confirm = async (): Promise<void> => {
    if (wrong.size || description === "") throw new Error("Nothing was sent: correct first what is marked.");
    if (!changes.length && description === null) throw new Error("Nothing is changed yet.");
    const associations = changes.length ? [recordOf(assoc, changes)] : [];
    try {
      if (description === null) await send("POST", "associations", { associations });
      else await send("POST", "config", { accounts: [{ name: assoc.account, description, organization: "" }], associations });
    } catch (error) {
      const said = error instanceof Error ? error.message : String(error);
      const id = fieldIn(said, changes);
      setRefused([id, said]);
      if (!id) throw error;
      throw new Error(`Nothing was changed: see ${FIELDS.find((one) => one.id === id)?.title ?? id}.`, { cause: error });
    }
  };
  return (
    <Dialog title={`Change ${nameOf(assoc)}`} confirm="Change" isWide onClose={onClose} onConfirm={confirm}>
      {acts}
      <div class="fields">
        {FIELDS.map((field) => (
          <Setting
            key={field.id} field={field} value={typed[field.id] ?? field.text(assoc)} onInput={(value) => type(field.id, value)}
            said={wrong.get(field.id) ?? (refused[0] === field.id ? refused[1] : "")}
          />
        ))}
        {hasDescription && described !== undefined && (
          <Input id="description" label="Description" hint="Description" said={description === "" ? "A description cannot be taken away: write another one." : ""}>
            {(about) => <input {...about} value={text ?? described} maxLength={255} onInput={(event) => setText(event.currentTarget.value)} />}
          </Input>
        )}
      </div>
      <p class="faint small">
        {`Empty: no limit of its own; that of the account above counts, if it has one.${assoc.user ? "" : " Settings of the users in it stay."}`}
      </p>
      <ul class="diff" aria-live="polite" aria-label="What changes">
        {changes.map(({ field, before, after }) => <Line key={field.id} title={field.title} before={before} after={after} />)}
        {description && <Line title="Description" before={described ?? ""} after={description} />}
        {!changes.length && !description && <li class="faint">Nothing is changed yet.</li>}
      </ul>
    </Dialog>
  );
}

function Line({ title, before, after }: { title: string; before: string; after: string }): JSX.Element {
  return <li>{title}: <del>{before || "none"}</del> {"→"} <ins>{after || "none"}</ins></li>;
}

function Setting(props: { field: AccountField; value: string; said: string; onInput: (value: string) => void }): JSX.Element {
  const { field, said } = props;
  return (
    <Input id={field.id} label={field.title} hint={field.keyword} said={said}>
      {(about) => (
        <input
          {...about} value={props.value} placeholder={field.example} maxLength={2000} spellcheck={false} autocapitalize="off" autocomplete="off"
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
    </Input>
  );
}

interface InputAbout {
  "id": string;
  "aria-invalid": boolean;
  "aria-describedby": string;
}

/** A field with its label, and below it what it is, or what is wrong with it. */
function Input(props: { id: string; label: string; hint: string; said?: string; children: (about: InputAbout) => JSX.Element }): JSX.Element {
  const { said = "" } = props;
  const id = `change-${props.id}`;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children({ id, "aria-invalid": said !== "", "aria-describedby": `${id}-about` })}
      <span id={`${id}-about`} class={said ? "remark" : "hint"} role={said ? "alert" : undefined}>{said || props.hint}</span>
    </div>
  );
}

// ---- more and less

/** A text of a form, which may be wrong. */
function Text(props: { label: string; value: string; hint: string; isRequired?: boolean; onInput: (value: string) => void }): JSX.Element {
  return (
    <Input id={props.label.toLowerCase()} label={props.label} hint={props.hint}>
      {(about) => (
        <input
          {...about} value={props.value} required={props.isRequired ?? false} maxLength={255} spellcheck={false} autocapitalize="off" autocomplete="off"
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
    </Input>
  );
}

function AddUser({ assoc, acts, onClose }: Part): JSX.Element {
  const [users, setUsers] = useState("");
  const confirm = (): Promise<void> => {
    const names = users.split(",").map((one) => one.trim()).filter(Boolean);
    for (const name of names) checkName(name, "a user");
    if (!names.length) throw new Error("Write the name of a user.");
    const associations = names.map((user) => ({ account: assoc.account, user }));
    return send("POST", "associations", { associations }, `Nothing was changed: ${users} is in ${assoc.account} already.`);
  };
  return (
    <Dialog title={`Add a user to account ${assoc.account}`} confirm="Add" isWide onClose={onClose} onConfirm={async () => confirm()}>
      {acts}
      <Text label="User" value={users} hint="The login name; several with commas." isRequired onInput={setUsers} />
    </Dialog>
  );
}

function AddAccount({ assoc, acts, onClose }: Part): JSX.Element {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const confirm = (): Promise<void> => {
    checkName(name.trim(), "an account");
    const body = {
      association_condition: { accounts: [name.trim()], association: { parent: assoc.account } },
      account: description.trim() ? { description: description.trim() } : {},
    };
    return send("POST", "accounts_association", body, `Nothing was changed: there is an account ${name} already.`);
  };
  return (
    <Dialog title={`Add an account below ${assoc.account}`} confirm="Add" isWide onClose={onClose} onConfirm={async () => confirm()}>
      {acts}
      <div class="fields">
        <Text label="Account" value={name} hint="Its name, in lower case." isRequired onInput={setName} />
        <Text label="Description" value={description} hint="What it is for; it may be empty." onInput={setDescription} />
      </div>
    </Dialog>
  );
}

function Remove({ assoc, acts, all, onClose }: Part & { all: readonly Assoc[] }): JSX.Element {
  const found = below(all, assoc.account);
  const path = assoc.user ? `association?id=${assoc.id}` : `account/${encodeURIComponent(assoc.account)}`;
  return (
    <Dialog title={`Remove ${nameOf(assoc)}?`} confirm={assoc.user ? "Remove the user" : "Remove the account"} isDangerous isWide onClose={onClose} onConfirm={() => send("DELETE", path)}>
      {acts}
      <p>
        {assoc.user ? `${assoc.user} can submit no more jobs in ${assoc.account}. A user who is in no other account is removed.`
          : `${does(found.users, "user is", "users are")} in it or below it, and ${does(found.accounts, "account is", "accounts are")} below it: all go with it.`}
        {" What they have used stays in the reports."}
      </p>
    </Dialog>
  );
}
