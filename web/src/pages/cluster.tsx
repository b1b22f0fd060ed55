import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { OWN, session, SLURM } from "../api/client";
import { useAnswer } from "../api/live";
import type { AuditAnswer, ConfigAnswer, ConfigDiffAnswer, ConfigDifference, ControllerAnswer, DiagAnswer, NodesAnswer, PingAnswer } from "../api/types";
import { type AuditRow, auditRow } from "../lib/audit";
import { link, route, setQuery } from "../lib/route";
import { useStore } from "../lib/store";
import { count, does, duration, fullTime, memory } from "../lib/units";
import { Card, Chip, Facts, Pending, Time } from "../parts/bits";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";

/** The controller, the configuration in force, and for administrators the audit log. */

type Line = ConfigAnswer["lines"][number];

const LINES: readonly Column<Line>[] = [
  { id: "key", title: "Parameter", value: (row) => row.key, show: (row) => <b>{row.key}</b>, width: 16 },
  { id: "value", title: "Value", value: (row) => row.value, show: (row) => <code>{row.value}</code>, width: 28 },
  { id: "section", title: "Section", value: (row) => row.section, width: 14 },
];

export function ClusterPage({ part }: { part: string }): JSX.Element {
  return part === "audit" ? <Audit /> : <Configuration />;
}

function Parts({ here }: { here: "" | "audit" }): JSX.Element {
  const parts = [["", "Configuration"], ["audit", "Audit log"]] as const;
  return (
    <nav class="buttons" aria-label="Parts of the cluster's page">
      {parts.map(([name, title]) => (
        <a key={name} class="button" href={link(name ? ["cluster", name] : ["cluster"])} aria-current={here === name ? "page" : undefined}>{title}</a>
      ))}
    </nav>
  );
}

function Configuration(): JSX.Element {
  const config = useAnswer<ConfigAnswer>(`${OWN}/config`);
  const manages = useStore(session)?.manages ?? false;
  return (
    <TablePage
      title="Cluster" rows={config.data?.lines} error={config.error} columns={LINES} order="key" rowKey={(row) => `${row.section}/${row.key}`}
      empty="There is no configuration."
    >
      <Parts here="" />
      <Controllers version={config.data?.lines.find((one) => one.key === "PenstockVersion")?.value ?? ""} />
      {manages && <Foundations />}
      {manages && <Differences />}
    </TablePage>
  );
}

/** Versions change when a daemon is started again. */
const VERSIONS_EVERY_MS = 600_000;

/** How many nodes have each version; those that have never registered have none. */
export function versionsOf(nodes: readonly { readonly version: string }[]): string {
  const found = new Map<string, number>();
  for (const one of nodes) found.set(one.version, (found.get(one.version) ?? 0) + 1);
  return [...found].sort(([a], [b]) => b.localeCompare(a, "en", { numeric: true }))
    .map(([version, number]) => `${version || "unknown"}: ${count(number, "node")}`).join(", ");
}

/** Each controller, and whether it answers. */
export function controllersOf(pings: PingAnswer["pings"]): string {
  return pings.map((one) => `${one.hostname} (${one.primary ? "primary" : "standby"}, ${one.responding ? "answers" : "does not answer"})`).join("; ");
}

function Controllers({ version }: { version: string }): JSX.Element {
  const ping = useAnswer<PingAnswer>(`${SLURM}/ping`);
  const diag = useAnswer<DiagAnswer>(`${SLURM}/diag`);
  const nodes = useAnswer<NodesAnswer>(`${SLURM}/nodes`, VERSIONS_EVERY_MS);
  const [first] = ping.data?.pings ?? [];
  const stats = diag.data?.statistics;
  return (
    <Card title="Controller" more={first && <Chip tone={first.responding ? "good" : "bad"}>{first.responding ? "Answers" : "Does not answer"}</Chip>}>
      {ping.data && stats ? (
        <Facts
          rows={[
            ["Cluster", ping.data.meta.slurm.cluster], ["Penstock", version], ["Speaks as Slurm", ping.data.meta.slurm.release],
            ["Controllers", controllersOf(ping.data.pings)], ["Versions of nodes", nodes.data ? versionsOf(nodes.data.nodes) : ""],
            ["Jobs submitted", `${stats.jobs_submitted} since ${fullTime(stats.req_time_start.number * 1e6)}`],
            ["Jobs started", stats.jobs_started], ["Jobs completed", stats.jobs_completed],
            ["Last pass of the planner", `${(stats.schedule_cycle_last / 1000).toFixed(1)} ms`],
            ["Longest pass", `${(stats.schedule_cycle_max / 1000).toFixed(1)} ms`],
          ]}
        />
      ) : <Pending error={ping.error ?? diag.error} what="the controller" />}
    </Card>
  );
}

/** Neither changes from one minute to the next. */
const FOUNDATIONS_EVERY_MS = 60_000;
const OWNERS: ReadonlyMap<string, string> = new Map([["ca", "CA of the cluster"], ["controller", "Controller"], ["node", "Node"], ["login", "Login host"]]);
const KINDS: ReadonlyMap<string, string> = new Map([["sqlite", "SQLite, a file of the controller"], ["postgresql", "PostgreSQL"]]);
/** Changes that are not in the database yet for this time are worth a word. */
const BEHIND_US = 5_000_000;

/** Certificates and the database; the controller shows them to administrators alone. */
function Foundations(): JSX.Element | null {
  const answer = useAnswer<ControllerAnswer>(`${OWN}/controller`, FOUNDATIONS_EVERY_MS);
  if (answer.error?.status === 403 || answer.error?.status === 401) return null; // an operator
  const found = answer.data;
  if (!found) return <Card title="Certificates and database"><Pending error={answer.error} what="certificates and database" /></Card>;
  const { database, certificates, issued } = found;
  const warned = certificates.filter((one) => one.warning);
  const others = certificates.filter((one) => one.role === "node" || one.role === "login");
  const behind = database.behind_us > BEHIND_US;
  return (
    <>
      <Card title="Certificates" more={<Chip tone={warned.length ? "wait" : "good"}>{warned.length ? does(warned.length, "ends soon", "end soon") : "In order"}</Chip>}>
        {warned.length > 0 && <Lines title="To be looked at:" texts={warned.map((one) => (one.name && one.role !== "controller" ? `${one.name}: ${one.warning}` : one.warning))} tone="wait" />}
        <div class="scroll tall" tabIndex={0} role="region" aria-label="Certificates">
          <table class="plain">
            <thead><tr>{["Of", "Name", "Valid until"].map((one) => <th key={one} scope="col">{one}</th>)}</tr></thead>
            <tbody>
              {certificates.map((one) => (
                <tr key={`${one.role} ${one.name}`}>
                  <th scope="row">{OWNERS.get(one.role) ?? one.role}</th>
                  <td>{one.name || "–"}</td>
                  <td>{fullTime(one.end_at_us)} {one.warning && <Chip tone="wait">Soon</Chip>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {issued > others.length && <p class="faint small">{`Of ${issued} nodes and login hosts those whose certificates end first.`}</p>}
      </Card>
      <Card title="Database" more={<Chip tone={behind ? "wait" : "good"}>{behind ? "Behind" : "Up to date"}</Chip>}>
        <Facts
          rows={[
            ["Kind", KINDS.get(database.kind) ?? database.kind], ["Place", <code key="c">{database.address}</code>],
            ["Size", memory(Math.ceil(database.size_bytes / 2 ** 20))], ["Changes not in it yet", behind ? `for ${duration(database.behind_us / 1e6)}` : "none"],
          ]}
        />
      </Card>
    </>
  );
}

/** The controller reads its files for each answer. */
const FILES_EVERY_MS = 15_000;

/** What the files say otherwise than the configuration in force; the controller shows it to administrators alone. */
function Differences(): JSX.Element | null {
  const answer = useAnswer<ConfigDiffAnswer>(`${OWN}/config/diff`, FILES_EVERY_MS);
  if (answer.error?.status === 403 || answer.error?.status === 401) return null; // an operator
  const found = answer.data;
  if (!found) return <Card title="Configuration files"><Pending error={answer.error} what="the files" /></Card>;
  const { differences, file_errors: errors, problems, jobs, warnings } = found;
  const isSame = !differences.length && !errors.length;
  const needsRestart = differences.some((one) => one.needs_restart);
  return (
    <Card
      title="Configuration files"
      more={<Chip tone={errors.length ? "bad" : isSame ? "good" : "wait"}>{errors.length ? "Cannot be read" : isSame ? "As in force" : count(differences.length, "difference")}</Chip>}
    >
      {errors.length > 0 && <Lines title="A reload or a restart would fail:" texts={errors} tone="bad" />}
      {differences.length > 0 && <Changed rows={differences} />}
      {problems.length > 0 && <Lines title="A reload would be refused:" texts={problems} tone="bad" />}
      {jobs.length > 0 && <Lines title="Jobs after a reload:" texts={jobs} tone="wait" />}
      {warnings.length > 0 && <Lines title="Warnings:" texts={warnings.map((one) => one.description)} tone="wait" />}
      <p class="faint small">
        {isSame ? "slurm.conf and the files that it includes say what the controller uses."
          : errors.length ? "The controller goes on with what it has read before."
            : needsRestart ? "scontrol reconfigure is refused until the controller is restarted with the parameters that need it."
              : problems.length ? "" : "scontrol reconfigure makes the controller use the files."}
      </p>
    </Card>
  );
}

function Lines({ title, texts, tone }: { title: string; texts: readonly string[]; tone: "bad" | "wait" }): JSX.Element {
  return (
    <div class={`notice ${tone} lines`}>
      <b>{title}</b>
      <ul>{texts.map((text) => <li key={text}>{text}</li>)}</ul>
    </div>
  );
}

function Changed({ rows }: { rows: readonly ConfigDifference[] }): JSX.Element {
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Differences">
      <table class="plain">
        <thead><tr>{["Parameter", "In force", "In the files", "Needs"].map((one) => <th key={one} scope="col">{one}</th>)}</tr></thead>
        <tbody>
          {rows.map((one) => (
            <tr key={`${one.what} ${one.names} ${one.key}`}>
              <th scope="row"><b>{one.key}</b> <span class="faint">{one.what && `${one.what} ${one.names}`}</span></th>
              <td class="value" title={one.running}><code>{one.running || "–"}</code></td>
              <td class="value" title={one.file}><code>{one.file || "–"}</code></td>
              <td><Chip tone={one.needs_restart ? "bad" : "off"}>{one.needs_restart ? "Restart" : "Reconfigure"}</Chip></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// ---- audit

const PERIODS: ReadonlyMap<string, readonly [number, string]> = new Map([
  ["1d", [86400, "Last day"]], ["7d", [7 * 86400, "Last 7 days"]], ["30d", [30 * 86400, "Last 30 days"]],
]);
const HOUR_S = 3600;

const RECORDS: readonly Column<AuditRow>[] = [
  { id: "id", title: "Number", value: (row) => row.id, width: 6, isNumber: true },
  { id: "time", title: "Time", value: (row) => row.at_us, text: (row) => fullTime(row.at_us), show: (row) => <Time us={row.at_us} />, width: 9 },
  { id: "user", title: "User", value: (row) => row.user, width: 9 },
  { id: "action", title: "Action", value: (row) => row.action, width: 13 },
  { id: "objects", title: "Objects", value: (row) => row.objects, width: 13 },
  { id: "changes", title: "Changes", value: (row) => row.changes, width: 24 },
  { id: "result", title: "Result", value: (row) => row.result, width: 9 },
  { id: "how", title: "Proven by", value: (row) => row.how, width: 12, isHidden: true },
];

function Audit(): JSX.Element {
  const asked = useStore(route).query.get("period") ?? "";
  const period = PERIODS.has(asked) ? asked : "1d";
  const [length_s] = PERIODS.get(period) ?? [86400];
  const start = Math.floor((Date.now() / 1000 - length_s) / HOUR_S) * HOUR_S;
  const answer = useAnswer<AuditAnswer>(`${OWN}/audit?start=${start}`);
  const rows = useMemo(() => answer.data?.records.map(auditRow), [answer.data]);
  return (
    <TablePage
      title="Audit log" rows={rows} error={answer.error} columns={RECORDS} order="-id" rowKey={(row) => `${row.id}`}
      empty="Nothing was changed in this time."
      tools={
        <select aria-label="Period" value={period} onChange={(event) => setQuery({ period: event.currentTarget.value })}>
          {[...PERIODS].map(([word, [, title]]) => <option key={word} value={word}>{title}</option>)}
        </select>
      }
    >
      <Parts here="audit" />
    </TablePage>
  );
}
