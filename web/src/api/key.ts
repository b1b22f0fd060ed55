/**
 * The key to this session's cookie: it is worth nothing without the cookie, which no script can read, and the cookie nothing
 * without it. It belongs to this origin alone, whereas browsers send cookies to all ports of a host.
 */

/* eslint no-restricted-globals: "off" -- the key is kept in the browser */
const NAME = "penstock.key";

/** The header that proves the user, with the cookie. */
export function proof(): Record<string, string> {
  return { "X-Penstock-Web": localStorage.getItem(NAME) ?? "none" };
}

export function keepKey(key: string): void {
  localStorage.setItem(NAME, key);
}

export function dropKey(): void {
  localStorage.removeItem(NAME);
}
