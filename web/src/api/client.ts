import type { Tagged } from "../lib/asker";
import { Store } from "../lib/store";
import { dropKey, keepKey, proof } from "./key";
import type { User, UsersAnswer } from "./types";

/**
 * One request to the daemon that served this page. The cookie has the user's token, encrypted; the header has the key to it,
 * which this origin alone keeps. Neither is of use without the other.
 */

export interface Session {
  readonly user: string;
  readonly cluster: string;
  /** Whether to offer what administrators may; the controller decides. */
  readonly manages: boolean;
  /** The accounts of which the user is a coordinator: those below them may be offered for changes. */
  readonly coordinates: readonly string[];
}

/** null: nobody is logged in; undefined: not known yet. */
export const session = new Store<Session | null | undefined>(undefined);

export const SLURM = "/slurm/v0.0.46";
export const SLURMDB = "/slurmdb/v0.0.46";
export const OWN = "/penstock/v1";

/** A request that was not carried out. `status` 0: the daemon does not answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** All that is wrong, each with the place in the request that it is about. */
    readonly remarks: readonly Remark[] = [],
  ) {
    super(message);
  }
}

/** What the daemon or the controller says of a part of a request, as `#/job/partition`. */
export interface Remark {
  readonly description: string;
  readonly source: string;
}

interface Refusal {
  errors?: { description?: string; error?: string; source?: string }[];
}

/** The answer, and its entity tag. */
/** Asks; null if the answer still has the tag that the caller has. */
export async function read<T>(path: string, tag = "", signal?: AbortSignal): Promise<Tagged<T> | null> {
  const response = await send("GET", path, undefined, signal);
  const found = response.headers.get("ETag") ?? "";
  if (found && found === tag) {
    await response.body?.cancel();
    return null;
  }
  return { data: (await response.json()) as T, tag: found };
}

/** Changes something. `more`: further headers. */
export async function change<T>(method: "POST" | "DELETE", path: string, body?: unknown, more: Readonly<Record<string, string>> = {}): Promise<T> {
  const response = await send(method, path, body, undefined, more);
  return (await response.json()) as T;
}

/** Asks with a body. */
export async function ask<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
  const response = await send("POST", path, body, signal);
  return (await response.json()) as T;
}

/** Says that the page goes, which nobody waits for: also of a page that is being closed. */
export function leave(path: string): void {
  void fetch(path, { method: "DELETE", headers: proof(), keepalive: true }).catch(() => undefined);
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Readonly<Record<string, string>> = {}): Promise<Response> {
  const headers: Record<string, string> = { ...proof(), ...more, Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method, headers };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The daemon does not answer.");
  }
  if (response.ok) return response;
  const error = await refusalOf(response);
  if (response.status === 401 && !path.startsWith("/web/")) session.set(null);
  throw error;
}

async function refusalOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  const unknown = `The request was refused (${response.status}).`;
  try {
    const found = (JSON.parse(text) as Refusal).errors ?? [];
    const remarks = found.map((one) => ({ description: sentence(one, unknown), source: one.source ?? "" }));
    return new ApiError(response.status, found[0] ? sentence(found[0], unknown) : unknown, remarks);
  } catch {
    return new ApiError(response.status, text.slice(0, 300) || unknown);
  }
}

/** The words for the kind of error, and what it is about: `Invalid node name specified: n9`. */
function sentence(one: { description?: string; error?: string }, unknown: string): string {
  const { description = "", error = "" } = one;
  if (!description || !error || description.startsWith(error)) return description || error || unknown;
  return `${error}: ${description}`;
}

// ---- sessions

interface LoggedIn {
  user: string;
  cluster: string;
  /** Host of the identity provider that logs users in; "" = there is none. */
  provider?: string;
  /** Whether users log in by their passwords. */
  passwords?: boolean;
}

/** How users log in here, beside a token. */
export interface LoginWays {
  /** The identity provider's host, to be shown; "" = there is none. */
  readonly provider: string;
  readonly passwords: boolean;
}

export async function loginWays(): Promise<LoginWays> {
  const found = (await read<LoggedIn>("/web/session"))?.data;
  return { provider: found?.provider ?? "", passwords: found?.passwords ?? false };
}

/** What a login is proven by. */
export type Proof = { token: string } | { secret: string } | { user: string; password: string };

export async function findSession(): Promise<void> {
  try {
    const found = (await read<LoggedIn>("/web/session"))?.data;
    await known(found?.user ? found : null);
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) throw error;
    session.set(null);
  }
}

export async function login(by: Proof): Promise<void> {
  const found = await change<LoggedIn & { key: string }>("POST", "/web/login", by);
  keepKey(found.key);
  await known(found);
}

export async function logout(): Promise<void> {
  await change("POST", "/web/logout", {});
  dropKey();
  session.set(null);
}

/** The page is shown before it is known what the user may manage: this takes two answers more. */
async function known(found: LoggedIn | null): Promise<void> {
  if (found === null) return session.set(null);
  const { user, cluster } = found;
  const first: Session = { user, cluster, manages: user === "root", coordinates: [] };
  session.set(first); // the page does not wait for what else this user may
  if (first.manages) return;
  const rights = await rightsOf(user).catch(() => null);
  if (rights && session.value === first) session.set({ ...first, ...rights });
}

async function rightsOf(user: string): Promise<Pick<Session, "manages" | "coordinates">> {
  const answer = await read<UsersAnswer>(`${SLURMDB}/user/${encodeURIComponent(user)}?with_coords=true`);
  const users = answer?.data.users ?? [];
  const coordinates = users.flatMap((one) => one.coordinators.map((coordinated) => coordinated.name));
  const is = (one: User): boolean => one.administrator_level.some((word) => word === "Administrator" || word === "Operator");
  if (users.some(is)) return { manages: true, coordinates };
  const conf = await read<{ slurm_conf?: { SlurmUser?: unknown } }>(`${SLURM}/conf`);
  const manages = JSON.stringify(conf?.data.slurm_conf?.SlurmUser ?? "").split(/[^\w.-]+/).includes(user);
  return { manages, coordinates };
}
