import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { ApiError, change } from "../api/client";
import { refresh } from "../api/live";
import { editedOf, type Field, type FieldChange, fieldIn } from "../lib/changefields";
import { Dialog } from "./bits";

/**
 * A form that changes settings of a record, or makes one: it says what changes from what to what before that is sent, and shows
 * what the controller refuses at the field that this speaks of.
 */

/** The field of a record's name. */
const NAME = "name";

/** Sends a change. What is so already is no failure, unless `unchanged` says why it is one. */
export async function sendChange(method: "POST" | "DELETE", path: string, body?: unknown, unchanged = ""): Promise<void> {
  try {
    await change(method, path, body);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 304) throw new Error(`Nothing was changed. ${error.message}`, { cause: error });
    if (unchanged) throw new Error(unchanged, { cause: error });
  }
  refresh();
}

/** There is a record of the name of one that was to be made. */
class NameTaken extends Error {}

/** Makes a record. One of that name that is there, which another person may have just made, stays as it is. */
export async function sendNew<T>(path: string, body: unknown, changes: readonly FieldChange<T>[]): Promise<void> {
  try {
    await change("POST", path, body, { "If-None-Match": "*" });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const name = changes.find((one) => one.field.id === NAME)?.after;
    if (error.status === 412 && name) throw new NameTaken(`The name ${name} is taken: write another one.`, { cause: error });
    throw new Error(`Nothing was changed. ${error.message}`, { cause: error });
  }
  refresh();
}

/** A setting that is in no table: its inputs, and what changes by it. */
export interface Extra {
  readonly input: ComponentChildren;
  readonly line: ComponentChildren;
  readonly isChanged: boolean;
  readonly isWrong: boolean;
}

export function ChangeDialog<T>(props: {
  title: string;
  confirm: string;
  fields: readonly Field<T>[];
  record: T;
  /** A record that is made may have no changes. */
  isNew?: boolean;
  acts?: ComponentChildren;
  note: ComponentChildren;
  extra?: Extra | undefined;
  send: (changes: readonly FieldChange<T>[]) => Promise<void>;
  onClose: () => void;
}): JSX.Element {
  const { fields, record, extra, isNew = false } = props;
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const [refused, setRefused] = useState<readonly [string, string]>(["", ""]);
  const { changes, wrong } = editedOf(fields, record, typed);
  const type = (id: string, value: string): void => {
    setTyped((before) => ({ ...before, [id]: value }));
    if (refused[0] === id) setRefused(["", ""]);
  };
  const confirm = async (): Promise<void> => {
    if (wrong.size || extra?.isWrong) throw new Error("Nothing was sent: correct first what is marked.");
    if (!isNew && !changes.length && !extra?.isChanged) throw new Error("Nothing is changed yet.");
    try {
      await props.send(changes);
    } catch (error) {
      const said = error instanceof Error ? error.message : String(error);
      const id = error instanceof NameTaken ? NAME : fieldIn(said, changes);
      setRefused([id, said]);
      if (!id) throw error;
      document.getElementById(`change-${id}`)?.focus(); // it may be out of sight
      throw new Error(`Nothing was changed: see ${fields.find((one) => one.id === id)?.title ?? id}.`, { cause: error });
    }
  };
  const setting = (field: Field<T>): JSX.Element => (
    <Setting
      key={field.id} field={field} value={typed[field.id] ?? field.text(record)} onInput={(value) => type(field.id, value)}
      said={wrong.get(field.id) ?? (refused[0] === field.id ? refused[1] : "")}
    />
  );
  return (
    <Dialog title={props.title} confirm={props.confirm} isWide onClose={props.onClose} onConfirm={confirm}>
      {props.acts}
      <div class="fields">
        {fields.filter((field) => !field.several).map(setting)}
        {extra?.input}
      </div>
      {fields.filter((field) => field.several).map(setting)}
      <p class="faint small">{props.note}</p>
      <ul class="diff" aria-live="polite" aria-label="What changes">
        {changes.map(({ field, before, after }) => <ChangeLine key={field.id} title={field.title} before={shown(field, before)} after={shown(field, after)} isNew={isNew} />)}
        {extra?.line}
        {!changes.length && !extra?.isChanged && <li class="faint">{isNew ? "Nothing is set yet." : "Nothing is changed yet."}</li>}
      </ul>
    </Dialog>
  );
}

const TIME = { type: "datetime-local" } as const;

function shown<T>(field: Field<T>, text: string): string {
  return text && (field.shown?.(text) ?? field.choices?.find((one) => one[0] === text)?.[1] ?? text);
}

export function ChangeLine({ title, before, after, isNew = false }: { title: string; before: string; after: string; isNew?: boolean }): JSX.Element {
  return <li>{title}: {!isNew && <><del>{before || "none"}</del> {"→"} </>}<ins>{after || "none"}</ins></li>;
}

function Setting<T>(props: { field: Field<T>; value: string; said: string; onInput: (value: string) => void }): JSX.Element {
  const { field, said, value, onInput } = props;
  if (field.several) return <Several {...props} several={field.several} />;
  return (
    <Input id={field.id} label={field.title} hint={field.hint ?? field.keyword} said={said}>
      {(about) => (field.choices ? (
        <select {...about} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
          {field.choices.map(([one, title]) => <option key={one} value={one}>{title}</option>)}
        </select>
      ) : (
        <input
          {...about} {...(field.isTime ? TIME : {})} value={value} placeholder={field.example} maxLength={2000} spellcheck={false} autocapitalize="off" autocomplete="off"
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      ))}
    </Input>
  );
}

/** Boxes of which any number are on; the text has the names of those, with commas. */
function Several<T>(props: { field: Field<T>; several: NonNullable<Field<T>["several"]>; value: string; said: string; onInput: (value: string) => void }): JSX.Element {
  const { field, several, said } = props;
  const on = props.value.split(",").filter(Boolean);
  const turn = (name: string, isOn: boolean): void => props.onInput(several.map((one) => one[0]).filter((one) => (one === name ? isOn : on.includes(one))).join(","));
  return (
    <fieldset class="several" aria-describedby={said ? `change-${field.id}-about` : undefined}>
      <legend>{field.title}</legend>
      {several.map(([name, title]) => (
        <label key={name}>
          <input type="checkbox" checked={on.includes(name)} onChange={(event) => turn(name, event.currentTarget.checked)} />
          <span>{title}</span>
        </label>
      ))}
      {said && <span id={`change-${field.id}-about`} class="remark" role="alert">{said}</span>}
    </fieldset>
  );
}

interface InputAbout {
  "id": string;
  "aria-invalid": boolean;
  "aria-describedby": string;
}

/** A field with its label, and below it what it is, or what is wrong with it. */
export function Input(props: { id: string; label: string; hint: string; said?: string; children: (about: InputAbout) => JSX.Element }): JSX.Element {
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

/** What can be done with a record, of which one is chosen; nothing where it is one. */
export function Acts<A extends string>(props: { acts: readonly (readonly [A, string])[]; chosen: A; choose: (act: A) => void }): JSX.Element | null {
  if (props.acts.length < 2) return null;
  return (
    <div class="buttons acts" role="group" aria-label="What to change">
      {props.acts.map(([name, title]) => (
        <button key={name} type="button" class={name === props.chosen ? "on" : ""} aria-pressed={name === props.chosen} onClick={() => props.choose(name)}>{title}</button>
      ))}
    </div>
  );
}
