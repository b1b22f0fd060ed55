import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { change, OWN, session, SLURM } from "../api/client";
import { refresh, useAnswer } from "../api/live";
import type { GpusAnswer, JobsAnswer, NodeEventsAnswer, NodesAnswer, TopologyAnswer } from "../api/types";
import { type Colouring, COLOURINGS, figureOf, groupsOf, legendOf, paintOf, USES } from "../lib/gpucolour";
import { eccText, figure, type GpuReading } from "../lib/gpufigures";
import { ACTIVE, type NodeRow, nodeRows, type NodeGpu } from "../lib/model";
import { link, route, setQuery } from "../lib/route";
import { type GpuUse, words } from "../lib/states";
import { useStore } from "../lib/store";
import { duration, memory } from "../lib/units";
import { Card, Chip, Dialog, Empty, Facts, JobState, Pending, Time } from "../parts/bits";
import { type GpuCell, GpuGrid } from "../parts/gpugrid";
import type { Column } from "../parts/grid";
import { Table } from "../parts/table";
import { jobLink } from "./overview";
import { useReadings } from "./readings";

function of(row: NodeRow, use: GpuUse): number {
  return row.gpus.filter((one) => one.use === use).length;
}

function stateText(row: NodeRow): string {
  return words(row.node.state.join(" "));
}

const COLUMNS: readonly Column<NodeRow>[] = [
  { id: "node", title: "Node", value: (row) => row.node.name, show: (row) => <a href={link(["nodes", row.node.name])}>{row.node.name}</a>, width: 9 },
  { id: "state", title: "State", value: stateText, show: (row) => <Chip tone={row.tone}>{stateText(row)}</Chip>, width: 10 },
  { id: "gpus", title: "GPUs", value: (row) => row.gpus.length, width: 5, isNumber: true },
  { id: "gpusfree", title: "GPUs idle", value: (row) => of(row, "free"), width: 6.5, isNumber: true },
  { id: "gputype", title: "GPU type", value: (row) => row.gpus[0]?.gpu.type ?? "", width: 7 },
  { id: "cpus", title: "CPUs", value: (row) => row.node.cpus, width: 5, isNumber: true },
  { id: "cpusalloc", title: "CPUs allocated", value: (row) => row.node.alloc_cpus, width: 8.5, isNumber: true },
  { id: "load", title: "Load", value: (row) => row.node.cpu_load / 100, text: (row) => (row.node.cpu_load / 100).toFixed(2), width: 5, isNumber: true },
  { id: "memory", title: "Memory", value: (row) => row.node.real_memory, text: (row) => memory(row.node.real_memory), width: 7, isNumber: true },
  { id: "memalloc", title: "Memory allocated", value: (row) => row.node.alloc_memory, text: (row) => memory(row.node.alloc_memory), width: 10, isNumber: true },
  { id: "partitions", title: "Partitions", value: (row) => row.node.partitions.join(", "), width: 9 },
  { id: "reason", title: "Reason", value: (row) => row.node.reason, width: 14 },
];

function useRows(): { rows: NodeRow[] | null; error: ReturnType<typeof useAnswer>["error"] } {
  const nodes = useAnswer<NodesAnswer>(`${SLURM}/nodes`);
  const gpus = useAnswer<GpusAnswer>(`${OWN}/gpus`);
  const readings = useReadings(gpus.data?.gpus);
  const rows = useMemo(
    () => (nodes.data && gpus.data ? nodeRows(nodes.data.nodes, gpus.data.gpus, readings) : null), [nodes.data, gpus.data, readings],
  );
  return { rows, error: nodes.error ?? gpus.error };
}

export function Nodes(): JSX.Element {
  const { query } = useStore(route);
  const { rows, error } = useRows();
  const switches = useAnswer<TopologyAnswer>(`${OWN}/topology`).data?.switches;
  const asked = query.get("colour") ?? "";
  const colouring = Object.hasOwn(COLOURINGS, asked) ? (asked as Colouring) : "use";
  const isGrouped = query.get("group") !== "no";
  const groups = useMemo(
    () => groupsOf(rows ?? [], isGrouped ? (switches ?? []) : [])
      .map((one) => ({ name: one.name, cells: one.rows.flatMap((row) => row.gpus.map((gpu) => cellOf(row, gpu, colouring))) }))
      .filter((one) => one.cells.length),
    [rows, switches, colouring, isGrouped],
  );
  if (!rows) return <><h1>Nodes</h1><Pending error={error} what="nodes" /></>;
  return (
    <>
      <h1>Nodes</h1>
      {groups.length > 0 && (
        <Card title="All GPUs" more={<Legend colouring={colouring} isGrouped={isGrouped} hasSwitches={Boolean(switches?.length)} />}>
          <GpuGrid groups={groups} />
        </Card>
      )}
      <Table
        label="Nodes" rows={rows} columns={COLUMNS} query={query} order="node" rowKey={(row) => row.node.name}
        open={(row) => link(["nodes", row.node.name])} empty="No node passes this filter."
      />
    </>
  );
}

function cellOf(row: NodeRow, one: NodeGpu, colouring: Colouring): GpuCell {
  return { key: one.gpu.uuid, node: row.node.name, paint: paintOf(colouring, one), label: () => labelOf(row, one, colouring) };
}

function labelOf(row: NodeRow, one: NodeGpu, colouring: Colouring): string {
  const { gpu, use } = one;
  const jobs = gpu.job_ids.length ? ` by job ${gpu.job_ids.join(", ")}` : "";
  const reason = gpu.reason || (use === "closed" || use === "broken" ? row.node.reason : "");
  const health = gpu.state === "HEALTHY" ? "" : `, ${words(gpu.state).toLowerCase()}`;
  const shown = figureOf(colouring, one);
  return `${row.node.name}, GPU ${gpu.index} (${gpu.type || "GPU"}): ${USES[use]}${jobs}${shown && `, ${shown}`}${health}${reason ? `, ${reason}` : ""}`;
}

function Legend({ colouring, isGrouped, hasSwitches }: { colouring: Colouring; isGrouped: boolean; hasSwitches: boolean }): JSX.Element {
  return (
    <div class="choose">
      <ul class="legend">
        {legendOf(colouring).map((one) => <li key={one.text}><i class={`dot paint${one.colour}`} aria-hidden="true" /> {one.text}</li>)}
      </ul>
      <label>Colour by <select value={colouring} onChange={(event) => setQuery({ colour: event.currentTarget.value })}>
        {Object.entries(COLOURINGS).map(([name, title]) => <option key={name} value={name}>{title}</option>)}
      </select></label>
      {hasSwitches && (
        <label><input type="checkbox" checked={isGrouped} onChange={(event) => setQuery({ group: event.currentTarget.checked ? "" : "no" })} /> By switch</label>
      )}
    </div>
  );
}

export function NodePage({ name }: { name: string }): JSX.Element {
  const nodes = useAnswer<NodesAnswer>(`${SLURM}/node/${encodeURIComponent(name)}`);
  const gpus = useAnswer<GpusAnswer>(`${OWN}/gpus?nodes=${encodeURIComponent(name)}`);
  const readings = useReadings(gpus.data?.gpus, name);
  const row = nodes.data && gpus.data ? nodeRows(nodes.data.nodes ?? [], gpus.data.gpus, readings)[0] : undefined;
  const isUnknown = nodes.data && !nodes.data.nodes?.length;
  return (
    <>
      <nav class="crumbs" aria-label="Where this page is"><a href={link(["nodes"])}>Nodes</a> / {name}</nav>
      {row ? <Node row={row} /> : isUnknown ? <div class="notice bad" role="alert">{`There is no node ${name}.`}</div>
        : <Pending error={nodes.error ?? gpus.error} what={`node ${name}`} />}
    </>
  );
}

function Node({ row }: { row: NodeRow }): JSX.Element {
  const { node } = row;
  const jobs = useAnswer<JobsAnswer>(`${OWN}/jobs?nodes=${encodeURIComponent(node.name)}&states=${ACTIVE}`);
  const here = jobs.data?.jobs ?? [];
  return (
    <>
      <header class="page">
        <h1>{node.name}</h1>
        <Chip tone={row.tone}>{stateText(row)}</Chip>
        <span class="grow" />
        <NodeActions row={row} />
      </header>
      {node.reason && <div class={`notice ${row.tone}`}><strong>{node.reason}</strong> {node.reason_set_by_user && `· ${node.reason_set_by_user}`} <Time us={node.reason_changed_at.number * 1e6} /></div>}
      <div class="columns">
        <Card title="GPUs" class="wide">
          {row.gpus.length ? <Gpus row={row} /> : <Empty>This node has no GPU.</Empty>}
        </Card>
        <Card title="Jobs here" more={here.length ? <span class="faint">{here.length}</span> : null}>
          {here.length ? (
            <ul class="list">
              {here.map((one) => <li key={one.shown_id}>{jobLink(one)}<span class="faint">{one.user_name}</span><JobState state={one.state} /></li>)}
            </ul>
          ) : <Empty>No job runs here.</Empty>}
        </Card>
        <Events node={node.name} />
        <Card title="Details" class="wide">
          <Facts
            rows={[
              ["Address", node.address],
              ["CPUs", `${node.alloc_cpus} of ${node.cpus} allocated`],
              ["Load", (node.cpu_load / 100).toFixed(2)],
              ["Memory", `${memory(node.alloc_memory)} of ${memory(node.real_memory)} allocated`],
              ["Memory free", node.free_mem.set ? memory(node.free_mem.number) : ""],
              ["Partitions", node.partitions.join(", ")],
              ["Features", node.active_features.join(", ")],
              ["System", `${node.operating_system} ${node.architecture}`],
              ["Booted", <Time key="t" us={node.boot_time.number * 1e6} />],
              ["Daemon started", <Time key="t" us={node.slurmd_start_time.number * 1e6} />],
              ["Version", node.version],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

/** The newest first; what was long ago is not asked for. */
const EVENTS_SHOWN = 20;

/** Times of the last 30 days at which the node was down or drained. */
function Events({ node }: { node: string }): JSX.Element {
  const answer = useAnswer<NodeEventsAnswer>(`${OWN}/nodes/events?nodes=${encodeURIComponent(node)}`);
  const found = [...(answer.data?.events ?? [])].filter((one) => one.node === node).sort((one, other) => other.start_at_us - one.start_at_us);
  return (
    <Card title="Events of 30 days" more={found.length ? <span class="faint">{found.length}</span> : null}>
      {!answer.data ? <Pending error={answer.error} what="events" /> : found.length ? (
        <ul class="list">
          {found.slice(0, EVENTS_SHOWN).map((one) => (
            <li key={`${one.start_at_us} ${one.state}`}>
              <Time us={one.start_at_us} />
              <b>{words(one.state)}</b>
              <span class="faint">
                {[one.reason, one.user, one.end_at_us ? `for ${duration((one.end_at_us - one.start_at_us) / 1e6)}` : "goes on"].filter(Boolean).join(" · ")}
              </span>
            </li>
          ))}
        </ul>
      ) : <Empty>It was neither down nor drained.</Empty>}
    </Card>
  );
}

/** States in which a GPU is given to jobs: all, or the last one. */
const OPEN_GPU = ["HEALTHY", "SUSPECT"];

/** What is worth a word and changes nothing. */
const NOTES: Readonly<Record<string, string>> = {
  ecc_pending: "the ECC mode changes at the next reboot", persistence_off: "persistence mode is off",
};

/** What a GPU does now, where the node tells it of any. */
const FIGURES: readonly (readonly [string, (reading: GpuReading) => string])[] = [
  ["Utilisation", (one) => figure(one.utilization_percent, "%")],
  ["Memory used", (one) => (one.memory_used_mb === null ? "" : memory(one.memory_used_mb))],
  ["Power", (one) => figure(one.power_w, "W")],
  ["Temperature", (one) => figure(one.temperature_c, "°C")],
  ["ECC errors", eccText],
];

function Gpus({ row }: { row: NodeRow }): JSX.Element {
  const me = useStore(session);
  const figures = row.gpus.some((one) => one.reading) ? FIGURES : [];
  const titles = ["GPU", "Type", "Memory", "Use", ...figures.map(([title]) => title), "Jobs", "Health", "XIDs", "Reason", ...(me?.manages ? ["Change"] : [])];
  return (
    <div class="scroll">
      <table class="plain stack">
        <thead><tr>{titles.map((title) => <th key={title} scope="col">{title}</th>)}</tr></thead>
        <tbody>
          {row.gpus.map(({ gpu, use, reading }) => (
            <tr key={gpu.uuid}>
              <th scope="row" title={gpu.uuid}><b>{gpu.profile ? `${gpu.index} ${gpu.profile}` : gpu.index}</b></th>
              <td>{gpu.type || gpu.name}</td>
              <td>{memory(gpu.memory_mb)}</td>
              <td><i class={`dot gpu-${use}`} aria-hidden="true" /> {USES[use]}{use === "unused" && ` for ${duration(Date.now() / 1000 - gpu.idle_since_us / 1e6)}`}</td>
              {figures.map(([title, text]) => <td key={title} data-title={title}>{(reading && text(reading)) || "–"}</td>)}
              <td data-title="Jobs">{gpu.job_ids.map((one, index) => <span key={one}>{index > 0 && ", "}<a href={link(["jobs", one])}>{one}</a></span>)}{!gpu.job_ids.length && "–"}</td>
              <td>{words(gpu.state)}</td>
              <td data-title="XIDs"><Xids gpu={gpu} /></td>
              <td data-title="Reason">{[gpu.reason || gpu.work, ...gpu.notes.map((one) => NOTES[one] ?? one)].filter(Boolean).join("; ") || "–"}</td>
              {me?.manages && (
                <td class="actions">
                  <DrainResume
                    what={`GPU ${gpu.index}`} node={gpu.node} gres={`gpu:${gpu.index}`} canDrain={OPEN_GPU.includes(gpu.state)} canResume={gpu.state !== "HEALTHY"}
                    effect="Jobs that have it go on; no new one gets it. The other GPUs of the node are not affected."
                  />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Each XID with how often it came and when last. */
function Xids({ gpu }: { gpu: NodeGpu["gpu"] }): JSX.Element {
  if (!gpu.xids.length) return <>–</>;
  return (
    <>
      {gpu.xids.map((one) => (
        <div key={one.xid}><b>{one.xid}</b> <span class="faint">{one.times > 1 ? `${one.times} times, last ` : ""}<Time us={one.last_us} /></span></div>
      ))}
    </>
  );
}

function NodeActions({ row }: { row: NodeRow }): JSX.Element | null {
  const { name, state } = row.node;
  return (
    <DrainResume
      what={`node ${name}`} node={name} gres="" isPrimary canDrain={!state.includes("DRAIN")}
      canResume={state.some((one) => one === "DRAIN" || one === "DOWN" || one === "FAIL")} effect="Running jobs go on; no new one starts here."
    />
  );
}

/** Takes a node, or one of its GPUs, out of use and back, for those who may. */
function DrainResume(props: {
  what: string; node: string; gres: string; canDrain: boolean; canResume: boolean; effect: string; isPrimary?: boolean;
}): JSX.Element | null {
  const me = useStore(session);
  const [asked, setAsked] = useState<"drain" | "resume" | null>(null);
  if (!me?.manages) return null;
  const { what } = props;
  const send = async (state: string, reason?: string): Promise<void> => {
    const body = { state: [state], ...(props.gres ? { gres: props.gres } : {}), ...(reason ? { reason } : {}) };
    await change("POST", `${SLURM}/node/${encodeURIComponent(props.node)}`, body);
    refresh();
  };
  const named = (verb: string): { "aria-label"?: string } => (props.isPrimary ? {} : { "aria-label": `${verb} ${what}` });
  return (
    <div class="buttons">
      {props.canResume && <button type="button" class={props.isPrimary ? "primary" : ""} onClick={() => setAsked("resume")} {...named("Resume")}>Resume</button>}
      {props.canDrain && <button type="button" class={props.isPrimary ? "danger" : ""} onClick={() => setAsked("drain")} {...named("Drain")}>Drain</button>}
      {asked === "drain" && (
        <Dialog
          title={`Drain ${what}?`} confirm="Drain" isDangerous onClose={() => setAsked(null)}
          input={{ label: "Reason", value: "", isRequired: true }} onConfirm={(reason) => send("DRAIN", reason)}
        >
          <p>{props.effect}</p>
        </Dialog>
      )}
      {asked === "resume" && (
        <Dialog title={`Resume ${what}?`} confirm="Resume" onClose={() => setAsked(null)} onConfirm={() => send("RESUME")}>
          <p>Jobs may start there again.</p>
        </Dialog>
      )}
    </div>
  );
}
