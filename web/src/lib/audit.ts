/** A record of the audit log as a row: the words of `penstock audit show`. Pure. */

export interface AuditRow {
  readonly id: number;
  readonly at_us: number;
  readonly user: string;
  readonly action: string;
  readonly objects: string;
  readonly changes: string;
  readonly result: string;
  readonly how: string;
}

type Fields = Record<string, unknown>;

function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return Array.isArray(value) ? value.map(String).join(",") : typeof value === "object" ? JSON.stringify(value) : String(value as string | number | boolean);
}

/** `name=before->after` of what has changed; of a new or a removed object its fields. */
function changesOf(before: Fields | null, after: Fields | null): string {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].sort();
  if (!before) return names.map((name) => `${name}=${shown(after?.[name])}`).join(" ");
  if (!after) return "";
  return names.map((name) => `${name}=${shown(before[name])}->${shown(after[name])}`).join(" ");
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `record.record` is JSON; another text makes a row that shows it. */
export function auditRow(record: { readonly id: number; readonly record: string }): AuditRow {
  let found: unknown;
  try {
    found = JSON.parse(record.record);
  } catch {
    found = null;
  }
  if (!isFields(found)) return { id: record.id, at_us: 0, user: "", action: record.record, objects: "", changes: "", result: "", how: "" };
  const text = (name: string): string => shown(found[name]);
  const fields = (name: string): Fields | null => (isFields(found[name]) ? found[name] : null);
  return {
    id: record.id,
    at_us: (Date.parse(text("time")) || 0) * 1000,
    user: (text("user") || "unauthenticated") + (text("as") ? ` as ${text("as")}` : ""),
    action: text("action"),
    objects: text("objects").replaceAll(",", ", "),
    changes: changesOf(fields("before"), fields("after")),
    result: text("result"),
    how: [text("auth"), text("from")].filter(Boolean).join(", "),
  };
}
