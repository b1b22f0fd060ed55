/** The user's own templates of job scripts, in this browser's storage: of each user of this cluster's page by themselves. */

/* eslint no-restricted-globals: "off" -- what a user keeps stays in this browser */

export interface OwnTemplate {
  readonly title: string;
  readonly script: string;
}

export const OWN_MAX = 50;
const SCRIPT_MAX = 65_536;

function key(user: string): string {
  return `penstock.templates.${user}`;
}

function isTemplate(one: unknown): one is OwnTemplate {
  const found = one as Partial<OwnTemplate> | null;
  return typeof found?.title === "string" && typeof found.script === "string";
}

/** By title; what cannot be read is none. */
export function ownTemplates(user: string, storage: Storage = localStorage): OwnTemplate[] {
  try {
    const found: unknown = JSON.parse(storage.getItem(key(user)) ?? "[]");
    return Array.isArray(found) ? found.filter(isTemplate).slice(0, OWN_MAX) : [];
  } catch {
    return [];
  }
}

function keep(user: string, all: readonly OwnTemplate[], storage: Storage): OwnTemplate[] {
  const sorted = [...all].sort((a, b) => (a.title < b.title ? -1 : 1));
  storage.setItem(key(user), JSON.stringify(sorted));
  return sorted;
}

/** Keeps one in place of that with its title. Throws: it is too long, or there are too many. */
export function keepTemplate(user: string, one: OwnTemplate, storage: Storage = localStorage): OwnTemplate[] {
  const others = ownTemplates(user, storage).filter((other) => other.title !== one.title);
  if (one.script.length > SCRIPT_MAX) throw new Error("This script is too long for a template: 64 KiB at most.");
  if (others.length >= OWN_MAX) throw new Error(`There are ${OWN_MAX} already: remove one first.`);
  return keep(user, [...others, one], storage);
}

export function removeTemplate(user: string, title: string, storage: Storage = localStorage): OwnTemplate[] {
  return keep(user, ownTemplates(user, storage).filter((one) => one.title !== title), storage);
}
