import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { SLURMDB } from "../api/client";
import { useAnswer } from "../api/live";
import type { AccountsAnswer, Assoc } from "../api/types";
import { FIELDS } from "../lib/accountfields";
import { type AccountRights, below } from "../lib/accountrights";
import { checkName, recordOf } from "../lib/changefields";
import { does } from "../lib/units";
import { Dialog } from "../parts/bits";
import { Acts, ChangeDialog, ChangeLine, Input, sendChange } from "../parts/changedialog";

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
  const acts = <Acts acts={shown.map(([name, title]) => [name, title])} chosen={act} choose={setAct} />;
  const part = { assoc, acts, onClose };
  if (act === "user") return <AddUser key={act} {...part} />;
  if (act === "account") return <AddAccount key={act} {...part} />;
  if (act === "remove") return <Remove key={act} {...part} all={props.all} />;
  return <Settings key={act} {...part} />;
}

interface Part {
  assoc: Assoc;
  acts: JSX.Element;
  onClose: () => void;
}

const send = (method: "POST" | "DELETE", path: string, body?: unknown, unchanged?: string): Promise<void> => sendChange(method, `${SLURMDB}/${path}`, body, unchanged);

// ---- settings

function Settings({ assoc, acts, onClose }: Part): JSX.Element {
  const hasDescription = !assoc.user && assoc.account !== ROOT;
  const path = hasDescription ? `${SLURMDB}/account/${encodeURIComponent(assoc.account)}` : "";
  const described = useAnswer<AccountsAnswer>(path).data?.accounts[0]?.description;
  const [text, setText] = useState<string | null>(null);
  const description = text !== null && described !== undefined && text.trim() !== described ? text.trim() : null;
  const extra = hasDescription && described !== undefined ? {
    isChanged: description !== null, isWrong: description === "",
    line: description && <ChangeLine title="Description" before={described} after={description} />,
    input: (
      <Input id="description" label="Description" hint="Description" said={description === "" ? "A description cannot be taken away: write another one." : ""}>
        {(about) => <input {...about} value={text ?? described} maxLength={255} onInput={(event) => setText(event.currentTarget.value)} />}
      </Input>
    ),
  } : undefined;
  const { account, user, partition } = assoc;
  return (
    <ChangeDialog
      title={`Change ${nameOf(assoc)}`} confirm="Change" fields={FIELDS} record={assoc} acts={acts} extra={extra} onClose={onClose}
      note={`Empty: no limit of its own; that of the account above counts, if it has one.${user ? "" : " Settings of the users in it stay."}`}
      send={(changes) => {
        const associations = changes.length ? [recordOf({ account, user, partition }, changes)] : [];
        if (description === null) return send("POST", "associations", { associations });
        return send("POST", "config", { accounts: [{ name: account, description, organization: "" }], associations });
      }}
    />
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
