import { Store } from "./store";

/** Where the page is: `#/jobs/12?q=gpu`. Everything that a reader may want to share is in it. */
export interface Route {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(path: readonly (string | number)[], query?: URLSearchParams): string {
  const words = query?.toString() ?? "";
  return `#/${path.map((one) => encodeURIComponent(one)).join("/")}${words ? `?${words}` : ""}`;
}

export const route = new Store<Route>(parseRoute(globalThis.location?.hash ?? ""));

export function startRouting(): void {
  addEventListener("hashchange", () => route.set(parseRoute(location.hash)));
}

/** Changes members of the query in place; "" removes one. Going back skips it. */
export function setQuery(changes: Record<string, string>): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  replace(link(route.value.path, query));
}

/** Another address in place of the present one, which the history forgets. */
export function replace(address: string): void {
  history.replaceState(null, "", address);
  route.set(parseRoute(location.hash));
}
