import type { Assoc } from "../api/types";

/** What to offer of an account's row; the controller decides. */
export interface AccountRights {
  readonly settings: boolean;
  /** Users and accounts below it. */
  readonly add: boolean;
  readonly remove: boolean;
}

const NONE: AccountRights = { settings: false, add: false, remove: false };
const ROOT = "root";

export interface Changer {
  readonly manages: boolean;
  /** The accounts of which the user is a coordinator. */
  readonly coordinates: readonly string[];
}

/** The rights by association. A coordinator changes what is below an account, and not the account itself. */
export function rightsOf(associations: readonly Assoc[], me: Changer | null | undefined): (assoc: Assoc) => AccountRights {
  if (me?.manages) {
    return (one) => ({ settings: true, add: !one.user, remove: one.user !== "" || one.account !== ROOT });
  }
  if (!me?.coordinates.length) return () => NONE;
  const parents = new Map(associations.filter((one) => !one.user).map((one) => [one.account, one.parent_account]));
  const coordinates = (account: string): boolean => {
    const seen = new Set<string>(); // also where parents are in a circle
    for (let at: string | undefined = account; at && !seen.has(at); at = parents.get(at)) {
      if (me.coordinates.includes(at)) return true;
      seen.add(at);
    }
    return false;
  };
  return (one) => {
    const isBelow = coordinates(one.user ? one.account : one.parent_account);
    return { settings: isBelow, add: !one.user && coordinates(one.account), remove: isBelow };
  };
}

/** What would go with an account: users and accounts below it. */
export function below(associations: readonly Assoc[], account: string): { users: number; accounts: number } {
  const gone = new Set([account]);
  const queue = [account];
  for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
    for (const one of associations) {
      if (!one.user && one.parent_account === at && !gone.has(one.account)) {
        gone.add(one.account);
        queue.push(one.account);
      }
    }
  }
  const users = new Set(associations.filter((one) => one.user && gone.has(one.account)).map((one) => one.user));
  return { users: users.size, accounts: gone.size - 1 };
}
