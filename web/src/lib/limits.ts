import type { Assoc, Tres } from "../api/types";
import { duration, memory } from "./units";

/** Limits as they are shown; "" is none. */

interface Amount {
  readonly set: boolean;
  readonly infinite: boolean;
  readonly number: number;
}

export function most(amount: Amount): string {
  return amount.set && !amount.infinite ? amount.number.toLocaleString("en") : "";
}

/** Minutes as a time. */
export function longest(amount: Amount): string {
  return amount.set && !amount.infinite ? duration(amount.number * 60) : "";
}

export function ratio(amount: Amount): string {
  return amount.set && !amount.infinite ? amount.number.toFixed(3) : "";
}

/** `cpu=8, mem=64 GiB, gres/gpu=2`; of minutes, memory is MiB minutes. */
export function tresText(list: readonly Tres[], isMinutes = false): string {
  return list.map((one) => {
    const name = one.name ? `${one.type}/${one.name}` : one.type;
    return `${name}=${one.type === "mem" && !isMinutes ? memory(one.count) : one.count.toLocaleString("en")}`;
  }).join(", ");
}

export interface TreeRow {
  readonly assoc: Assoc;
  readonly depth: number;
  /** Its place in the tree. */
  readonly order: number;
}

/** The associations as a tree, depth first: an account, its users, the accounts below it. What has no visible parent is a root. */
export function treeOf(associations: readonly Assoc[]): TreeRow[] {
  const accounts = new Set(associations.filter((one) => !one.user).map((one) => one.account));
  const below = new Map<string, Assoc[]>();
  for (const one of associations) {
    const parent = one.user ? one.account : one.parent_account;
    const key = accounts.has(parent) && (one.user || parent !== one.account) ? parent : "";
    below.set(key, [...(below.get(key) ?? []), one]);
  }
  const rows: TreeRow[] = [];
  const add = (parent: string, depth: number): void => {
    const here = below.get(parent) ?? [];
    below.delete(parent); // each once, also where parents are in a circle
    const kind = (one: Assoc): number => (one.user ? 0 : 1);
    here.sort((a, b) => kind(a) - kind(b) || `${a.account} ${a.user}`.localeCompare(`${b.account} ${b.user}`));
    for (const one of here) {
      rows.push({ assoc: one, depth, order: rows.length });
      if (!one.user) add(one.account, depth + 1);
    }
  };
  add("", 0);
  return rows;
}
