/** A tree of which only the open parts are there: its rows in order, and where the keys of a tree grid lead. Pure. */

export interface Branch<T> {
  /** Of one node of the tree, unlike all others. */
  readonly id: string;
  readonly value: T;
  readonly isLeaf: boolean;
}

export interface Row<T> extends Branch<T> {
  readonly level: number;
  readonly isOpen: boolean;
}

/** The rows of the open parts. `below` is asked of open branches alone. */
export function rowsOf<T>(top: readonly Branch<T>[], open: ReadonlySet<string>, below: (branch: Branch<T>) => readonly Branch<T>[]): Row<T>[] {
  const found: Row<T>[] = [];
  const add = (branches: readonly Branch<T>[], level: number): void => {
    for (const one of branches) {
      const isOpen = !one.isLeaf && open.has(one.id);
      found.push({ ...one, level, isOpen });
      if (isOpen) add(below(one), level + 1);
    }
  };
  add(top, 1);
  return found;
}

/** Where a key leads from a row: another row's place, a branch to be opened or closed; null: nowhere. */
export function keyed<T>(rows: readonly Row<T>[], at: number, key: string): { to: number } | { turn: string } | null {
  const row = rows[at];
  if (!row) return null;
  const parent = rows.slice(0, at).map((one) => one.level < row.level).lastIndexOf(true);
  switch (key) {
    case "ArrowDown": return at + 1 < rows.length ? { to: at + 1 } : null;
    case "ArrowUp": return at > 0 ? { to: at - 1 } : null;
    case "Home": return { to: 0 };
    case "End": return { to: rows.length - 1 };
    case "ArrowRight": return row.isLeaf ? null : !row.isOpen ? { turn: row.id } : rows[at + 1] ? { to: at + 1 } : null;
    case "ArrowLeft": return row.isOpen ? { turn: row.id } : parent >= 0 ? { to: parent } : null;
    case "Enter": case " ": return row.isLeaf ? null : { turn: row.id };
    default: return null;
  }
}

/** Long lists in parts of so many, each part a branch. */
export const PART = 100;

export function partsOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / PART) }, (_, part) => all.slice(part * PART, (part + 1) * PART));
}
