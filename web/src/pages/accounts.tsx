import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { OWN, session, SLURM, SLURMDB } from "../api/client";
import { useAnswer } from "../api/live";
import type { AssocSharesObjWrap, AssocsAnswer, BorrowingAnswer, BudgetsAnswer, SharesAnswer } from "../api/types";
import { type AccountRights, rightsOf } from "../lib/accountrights";
import { longest, most, ratio, tresText, type TreeRow, treeOf } from "../lib/limits";
import { link, route, setQuery } from "../lib/route";
import { useStore } from "../lib/store";
import { tresName } from "../lib/tres";
import { memory } from "../lib/units";
import { Card, Facts, Time } from "../parts/bits";
import type { Column } from "../parts/grid";
import { TablePage } from "../parts/tablepage";
import { AccountDialog, nameOf } from "./accountchange";

interface Row extends TreeRow {
  /** What fair-share makes of it; none for those who may not see it. */
  readonly share: AssocSharesObjWrap | undefined;
  readonly may: AccountRights;
}

/** Numbers sort; texts of absent ones are empty. */
function figure(id: string, title: string, of: (share: AssocSharesObjWrap) => { set: boolean; infinite: boolean; number: number }, width: number): Column<Row> {
  return {
    id, title, width, isNumber: true, value: (row) => (row.share && of(row.share).set ? of(row.share).number : -1),
    text: (row) => (row.share ? ratio(of(row.share)) : ""),
  };
}

function hours(row: Row): number {
  const found = row.share?.tres.usage.find((one) => one.name === "cpu");
  return (found?.value ?? 0) / 3600;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    id: "tree", title: "Account", value: (row) => row.order, text: (row) => row.assoc.account, width: 14,
    show: (row) => <span style={{ paddingLeft: `${row.depth * 1.1}rem` }}>{row.assoc.user ? <span class="faint">{row.assoc.account}</span> : <b>{row.assoc.account}</b>}</span>,
  },
  {
    id: "user", title: "User", value: (row) => row.assoc.user, width: 8,
    show: (row) => row.assoc.user && <a href={link(["jobs"], new URLSearchParams({ user: row.assoc.user }))}>{row.assoc.user}</a>,
  },
  { id: "shares", title: "Shares", value: (row) => row.assoc.shares_raw, text: (row) => (row.assoc.shares_raw === 2147483647 ? "parent" : `${row.assoc.shares_raw}`), width: 5, isNumber: true },
  figure("norm", "Share of all", (one) => one.shares_normalized, 7),
  figure("usage", "Usage of all", (one) => one.effective_usage, 7),
  figure("factor", "Fair-share", (one) => one.fairshare.factor, 6.5),
  { id: "hours", title: "CPU hours", value: hours, text: (row) => (row.share ? hours(row).toFixed(1) : ""), width: 6.5, isNumber: true },
  { id: "running", title: "Running limit", value: (row) => most(row.assoc.max.jobs.active), width: 9, isNumber: true },
  { id: "submit", title: "Queue limit", value: (row) => most(row.assoc.max.jobs.total), width: 7, isNumber: true },
  { id: "wall", title: "Longest job", value: (row) => longest(row.assoc.max.jobs.per.wall_clock), width: 7 },
  { id: "grptres", title: "Most in all", value: (row) => tresText(row.assoc.max.tres.total), width: 12 },
  { id: "jobtres", title: "Most per job", value: (row) => tresText(row.assoc.max.tres.per.job), width: 12 },
  { id: "qos", title: "QOS", value: (row) => row.assoc.qos.join(", "), width: 9 },
  { id: "defqos", title: "Default QOS", value: (row) => row.assoc.default.qos, width: 7, isHidden: true },
  { id: "partition", title: "Partition", value: (row) => row.assoc.partition, width: 7, isHidden: true },
  { id: "minutes", title: "Most minutes", value: (row) => tresText(row.assoc.max.tres.group.minutes, true), width: 12, isHidden: true },
  { id: "nodetres", title: "Most per node", value: (row) => tresText(row.assoc.max.tres.per.node), width: 12, isHidden: true },
  figure("level", "Fair-share level", (one) => one.fairshare.level, 8.5),
  { id: "comment", title: "Comment", value: (row) => row.assoc.comment, width: 10, isHidden: true },
];

/** The columns, with one of buttons for those who may change something. */
function columnsFor(rows: readonly Row[], change: (row: Row) => void): readonly Column<Row>[] {
  if (!rows.some((row) => mayChange(row.may))) return COLUMNS;
  const column: Column<Row> = {
    id: "change", title: "Change", width: 6.5, isUnordered: true, value: (row) => wordsOf(row.may),
    show: (row) => mayChange(row.may) && <button type="button" class="small" aria-label={`Change ${nameOf(row.assoc)}`} onClick={() => change(row)}>Change</button>,
  };
  return [...COLUMNS.slice(0, 2), column, ...COLUMNS.slice(2)];
}

function mayChange(may: AccountRights): boolean {
  return may.settings || may.add || may.remove;
}

function wordsOf(may: AccountRights): string {
  return [may.settings && "settings", may.add && "add", may.remove && "remove"].filter(Boolean).join(", ");
}

export function Accounts(): JSX.Element {
  const user = useStore(session);
  const me = user?.user ?? "";
  const [changed, setChanged] = useState<number | null>(null);
  const mine = useStore(route).query.get("user") ?? "";
  const answer = useAnswer<AssocsAnswer>(`${SLURMDB}/associations`);
  const shares = useAnswer<SharesAnswer>(`${SLURM}/shares`);
  const rows = useMemo(() => {
    if (!answer.data || (!shares.data && !shares.error)) return undefined;
    const byId = new Map((shares.data?.shares.shares ?? []).map((one) => [one.id, one]));
    const may = rightsOf(answer.data.associations, user);
    const all = treeOf(answer.data.associations).map((one) => ({ ...one, share: byId.get(one.assoc.id), may: may(one.assoc) }));
    return mine ? all.filter((one) => one.assoc.user === mine) : all;
  }, [answer.data, shares.data, shares.error, mine, user]);
  const columns = useMemo(() => columnsFor(rows ?? [], (row) => setChanged(row.assoc.id)), [rows]);
  const row = rows?.find((one) => one.assoc.id === changed);
  return (
    <TablePage
      title="Accounts" rows={rows} error={answer.error} columns={columns} order="tree" rowKey={(row) => `${row.assoc.id}`}
      open={(row) => link(["jobs"], new URLSearchParams(row.assoc.user ? { user: row.assoc.user } : { q: row.assoc.account }))}
      empty="There is no account."
      tools={<>
        <button type="button" class={mine === me ? "on" : ""} aria-pressed={mine === me} onClick={() => setQuery({ user: mine === me ? "" : me })}>
          My accounts
        </button>
        <a class="button" href={link(["policy"])}>Policy as a file</a>
      </>}
    >
      <Budgets />
      <Borrowing />
      {row && <AccountDialog assoc={row.assoc} all={answer.data?.associations ?? []} may={row.may} onClose={() => setChanged(null)} />}
    </TablePage>
  );
}

/** Budgets of accounts, where there are some. */
function Budgets(): JSX.Element | null {
  const found = useAnswer<BudgetsAnswer>(`${OWN}/budgets`).data?.budgets ?? [];
  if (!found.length) return null;
  return (
    <Card title="Budgets">
      <Facts
        rows={found.map((one) => [one.account, (
          <span key={one.account}>
            {`${one.used.toFixed(2)} of ${one.amount} ${one.unit} used, ${one.reserved.toFixed(2)} reserved`}
            {one.period_end_us > 0 && <> until <Time us={one.period_end_us} /></>}
            {one.problem && <span class="faint">{` (has no effect: ${one.problem})`}</span>}
          </span>
        )] as const)}
      />
    </Card>
  );
}

const BORROWING_MS = 60_000;
const BORROWING_HEADS = ["Account", "Of", "Guarantee", "Used", "Borrowed", "From", "May borrow", "Lends, idle"];

/** Guarantees of accounts that lend to each other, and who uses what the others leave idle; nothing where nobody may borrow. */
function Borrowing(): JSX.Element | null {
  const rows = useAnswer<BorrowingAnswer>(`${OWN}/borrowing`, BORROWING_MS).data?.rows ?? [];
  if (!rows.length) return null;
  return (
    <Card title="Borrowing" class="wide">
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Borrowing">
        <table class="plain">
          <thead><tr>{BORROWING_HEADS.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
          <tbody>
            {rows.map((one) => {
              const text = (amount: number): string => (amount ? (one.tres === "mem" ? memory(amount) : amount.toLocaleString("en")) : "–");
              return (
                <tr key={`${one.account} ${one.tres}`}>
                  <th scope="row">{one.account}</th>
                  <td>{tresName(one.tres)}</td>
                  <td>{text(one.guarantee)}</td>
                  <td>{text(one.used)}</td>
                  <td>{one.borrowed ? <b>{text(one.borrowed)}</b> : "–"}</td>
                  <td>{one.lenders.join(", ") || "–"}</td>
                  <td>{text(one.may_borrow)}</td>
                  <td>{text(one.idle)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
