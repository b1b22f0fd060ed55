import type { ComponentChildren, JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import { useAnswer } from "../api/live";
import type { ProfileAnswer, StepsAnswer } from "../api/types";
import { expand } from "../lib/hostlist";
import { type EndedTask, endOfTask, endText, failedTasks } from "../lib/taskends";
import { type Branch, keyed, PART, partsOf, type Row, rowsOf } from "../lib/tree";
import { bytes, count, duration, gpusOf } from "../lib/units";
import { Empty, JobState, Time } from "../parts/bits";

/**
 * The steps of a job as a tree: step, its nodes, their tasks. A node is asked for its tasks when it is opened, and not before; long lists are
 * in parts. Of a step that has ended, the tasks that did not end with 0 come before its nodes. What a task has used is known by its samples.
 */

export type Step = StepsAnswer["steps"][number];
type NodeProfile = ProfileAnswer["profiles"][number];
type Task = NodeProfile["tasks"][number];

type Value =
  | { readonly kind: "step"; readonly step: Step }
  | { readonly kind: "part"; readonly step: Step; readonly nodes: readonly string[]; readonly from: number }
  | { readonly kind: "node"; readonly step: Step; readonly node: string }
  | { readonly kind: "failed"; readonly step: Step; readonly task: EndedTask }
  | { readonly kind: "rest"; readonly step: Step; readonly tasks: number };
/** Shows the output of a task. */
export type ShowOutput = (step: string, task: number) => void;

const STEPS_SHOWN = 12;
const NODES_MAX = 10_000;
const FAILED_SHOWN = 100;
const COLUMNS: readonly (readonly [title: string, isNumber: boolean])[] = [
  ["Step", false], ["Name", false], ["State", false], ["Exit", false], ["Nodes", false], ["Tasks", true], ["CPUs", true], ["GPUs", true],
  ["Started", false], ["Elapsed", true], ["CPU time", true], ["Peak memory", true], ["Read", true], ["Written", true],
];
const NONE = <span class="faint">–</span>;

function below({ value }: Branch<Value>): Branch<Value>[] {
  return value.kind === "step" ? [...failedOf(value.step), ...nodesOf(value)] : value.kind === "part" ? nodesOf(value) : [];
}

function failedOf(step: Step): Branch<Value>[] {
  const { tasks, rest } = failedTasks(step, FAILED_SHOWN);
  const found: Branch<Value>[] = tasks.map((task) => ({ id: `${step.step}//failed/${task.rank}`, value: { kind: "failed", step, task }, isLeaf: true }));
  if (rest) found.push({ id: `${step.step}//rest`, value: { kind: "rest", step, tasks: rest }, isLeaf: true });
  return found;
}

function nodesOf(value: Value & { readonly kind: "step" | "part" }): Branch<Value>[] {
  const { step } = value;
  const nodes = value.kind === "part" ? value.nodes : expand(step.node_list, NODES_MAX) ?? [];
  const ofNode = (node: string): Branch<Value> => ({ id: `${step.step}/${node}`, value: { kind: "node", step, node }, isLeaf: false });
  if (nodes.length <= PART) return nodes.map(ofNode);
  return partsOf(nodes).map((some, part) => ({
    id: `${step.step}//${part}`, value: { kind: "part", step, nodes: some, from: part * PART }, isLeaf: false,
  }));
}

export function StepTree(props: { path: string; steps: readonly Step[]; everyMs: number; showOutput?: ShowOutput | undefined }): JSX.Element {
  const { path, steps, everyMs } = props;
  const [isWhole, setWhole] = useState(false);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [focused, setFocused] = useState("");
  const body = useRef<HTMLTableSectionElement>(null);
  const shown = isWhole ? steps : steps.slice(-STEPS_SHOWN);
  const rows = useMemo(
    () => rowsOf<Value>(shown.map((step) => ({ id: step.step, value: { kind: "step", step }, isLeaf: step.node_list === "" })), open, below),
    [shown, open],
  );
  if (!steps.length) return <Empty>It has no steps.</Empty>;
  const at = Math.max(0, rows.findIndex((one) => one.id === focused));
  const turn = (id: string): void => setOpen((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const press = (event: KeyboardEvent): void => {
    const found = keyed(rows, at, event.key);
    if (!found) return;
    event.preventDefault();
    if ("turn" in found) return turn(found.turn);
    const to = rows[found.to];
    if (!to) return;
    setFocused(to.id);
    body.current?.querySelectorAll<HTMLElement>("tr[data-branch]")[found.to]?.focus();
  };
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Steps">
        <table class="plain tree" role="treegrid" aria-label="Steps, nodes and tasks">
          <thead>
            <tr>{COLUMNS.map(([title, isNumber]) => <th key={title} scope="col" class={isNumber ? "number" : ""}>{title}</th>)}</tr>
          </thead>
          <tbody ref={body} onKeyDown={press}>
            {rows.map((row, place) => (
              <BranchRow
                key={row.id} row={row} path={path} everyMs={everyMs} isFocused={place === at} showOutput={props.showOutput}
                turn={() => turn(row.id)} focus={() => setFocused(row.id)}
              />
            ))}
          </tbody>
        </table>
      </div>
      {steps.length > shown.length && (
        <p><button type="button" onClick={() => setWhole(true)}>{`Show all ${steps.length.toLocaleString("en")} steps`}</button></p>
      )}
    </>
  );
}

function titleOf(value: Value): string {
  switch (value.kind) {
    case "step": return value.step.step;
    case "part": return `${value.nodes[0] ?? ""} … ${value.nodes.at(-1) ?? ""}`;
    case "node": return value.node;
    case "failed": return `task ${value.task.rank}`;
    case "rest": return `and ${count(value.tasks, "more task")} that did not end with 0`;
  }
}

interface BranchProps {
  row: Row<Value>;
  path: string;
  everyMs: number;
  isFocused: boolean;
  showOutput: ShowOutput | undefined;
  turn: () => void;
  focus: () => void;
}

function BranchRow(props: BranchProps): JSX.Element {
  const { row } = props;
  const { value } = row;
  const cells = value.kind === "step" ? stepCells(value.step)
    : value.kind === "part" ? ["", "", "", "", count(value.nodes.length, "node")]
    : value.kind === "failed" ? failedCells(value.step, value.task, props.isFocused, props.showOutput) : [];
  const title = titleOf(value);
  return (
    <>
      <tr
        data-branch tabIndex={props.isFocused ? 0 : -1} aria-level={row.level} {...(row.isLeaf ? {} : { "aria-expanded": row.isOpen })}
        onFocus={props.focus}
      >
        <Title level={row.level}>
          {row.isLeaf ? <span class="turn" /> : <button type="button" class="turn" tabIndex={-1} aria-label={`${row.isOpen ? "Close" : "Open"} ${title}`} onClick={props.turn}>{row.isOpen ? "▾" : "▸"}</button>}
          {value.kind === "failed" || value.kind === "rest" ? title : <code>{title}</code>}
        </Title>
        <Cells cells={cells} />
      </tr>
      {value.kind === "node" && row.isOpen && <Tasks {...value} level={row.level + 1} path={props.path} everyMs={props.everyMs} />}
    </>
  );
}

function Title({ level, children }: { level: number; children: ComponentChildren }): JSX.Element {
  return <th scope="row" class={`level${Math.min(level, 4)}`}>{children}</th>;
}

/** The cells behind the first; those that are not there are empty. */
function Cells({ cells }: { cells: readonly ComponentChildren[] }): JSX.Element {
  return (
    <>
      {COLUMNS.slice(1).map(([title, isNumber], place) => (
        <td key={title} class={isNumber ? "number" : title === "Name" || title === "Nodes" ? "long" : ""}>{cells[place] ?? ""}</td>
      ))}
    </>
  );
}

function stepCells(step: Step): ComponentChildren[] {
  const hasEnded = step.end_at_us > 0;
  const lasted = step.start_at_us > 0 ? ((hasEnded ? step.end_at_us : Date.now() * 1000) - step.start_at_us) / 1e6 : 0;
  const some = (value: number, text: (value: number) => string): ComponentChildren => (value > 0 ? text(value) : NONE);
  return [
    <span key="name" title={step.name}>{step.name}</span>, <JobState key="state" state={step.state} />,
    hasEnded ? (step.exit_signal ? `signal ${step.exit_signal}` : `${step.exit_code}`) : NONE, <span key="nodes" title={step.node_list}>{step.node_list}</span>,
    step.tasks, step.cpus, gpusOf(step.tres) || NONE, <Time key="start" us={step.start_at_us} />, duration(lasted),
    some(step.cpu_used_us / 1e6, duration), some(step.max_rss_kb * 1024, bytes), some(step.disk_read_bytes, bytes), some(step.disk_written_bytes, bytes),
  ];
}

function failedCells(step: Step, { rank, end }: EndedTask, isFocused: boolean, show: ShowOutput | undefined): ComponentChildren[] {
  return [
    show && end.kind === "EXITED" && (
      <button key="output" type="button" tabIndex={isFocused ? 0 : -1} aria-label={`Output of task ${rank}`} onClick={() => show(step.step, rank)}>Output</button>
    ),
    "", endText(end), end.node,
  ];
}

function Tasks(props: { step: Step; node: string; level: number; path: string; everyMs: number }): JSX.Element {
  const { step, node } = props;
  const query = new URLSearchParams({ step: step.step, nodes: node, points: "1" });
  const answer = useAnswer<ProfileAnswer>(`${props.path}/profile?${query.toString()}`, props.everyMs);
  const tasks = answer.data?.profiles[0]?.tasks ?? [];
  const highest = step.figures.find((one) => one.name === "rss_kb");
  if (!tasks.length) {
    const text = answer.error ? answer.error.message : !answer.data ? "Loading the tasks …" : nothingText(step);
    return <tr aria-level={props.level}><Title level={props.level}><span class="faint">{text}</span></Title><Cells cells={[]} /></tr>;
  }
  return (
    <>
      {tasks.map((task) => (
        <tr key={task.rank} aria-level={props.level}>
          <Title level={props.level}>{`task ${task.rank}`}</Title>
          <Cells cells={taskCells(task, endOfTask(step, node, task.rank), highest?.max_node === node && highest.max_task === task.rank)} />
        </tr>
      ))}
    </>
  );
}

function nothingText(step: Step): string {
  return step.tasks <= step.nodes ? "one task, which is the step here" : "tasks were not measured";
}

function taskCells(task: Task, end: string, isHighest: boolean): ComponentChildren[] {
  const known = (value: number | null, text: (value: number) => string): ComponentChildren => (value === null ? NONE : text(value));
  const memory = known(task.memory_max_bytes, bytes);
  return [
    "", "", end || NONE, "", "", "", "", "", "", known(task.cpu_used_s, duration), isHighest ? <span key="m" title="the highest of the step"><b>{memory}</b></span> : memory,
    known(task.read_bytes, bytes), known(task.written_bytes, bytes),
  ];
}
