import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { link } from "../lib/route";
import type { Paint } from "../lib/gpucolour";
import { Store, useStore } from "../lib/store";
import { count } from "../lib/units";

/** All GPUs in one picture: a canvas for each group of nodes, a block a node, a square a GPU. Hovering names one, a click opens its node. */

export interface GpuCell {
  /** The same as long as it is the same GPU, whatever is said of it. */
  readonly key: string;
  readonly node: string;
  /** What is said of the one that is pointed at. */
  readonly label: () => string;
  readonly paint: Paint;
}

export interface GpuGroup {
  readonly name: string;
  readonly cells: readonly GpuCell[];
}

/** Changes with the theme: colours are read from the style sheet when the canvas is drawn. */
export const themeChanges = new Store(0);

const HEIGHT_PX = 420;

interface Block {
  readonly node: string;
  readonly cells: readonly GpuCell[];
}

interface Layout {
  readonly size: number;
  readonly gap: number;
  /** Height of a node's name; 0: there is no room for names. */
  readonly label: number;
  readonly perRow: number;
  readonly lines: number;
  readonly across: number;
  readonly blockWidth: number;
  readonly blockHeight: number;
  readonly height: number;
}

function blocksOf(cells: readonly GpuCell[]): Block[] {
  const found = new Map<string, GpuCell[]>();
  for (const one of cells) {
    const list = found.get(one.node);
    if (list) list.push(one);
    else found.set(one.node, [one]);
  }
  return [...found].map(([node, list]) => ({ node, cells: list }));
}

/** Edges of the squares that there are, in pixels: a zoom goes from one to the next. */
export const SIZES: readonly number[] = [22, 18, 14, 10, 7, 5];

/** The index of the largest squares with which the blocks of all groups fit in HEIGHT_PX. */
export function fitting(nodes: readonly number[], gpus: number, width: number): number {
  const heights = SIZES.map((_, at) => nodes.reduce((sum, one) => sum + layout(one, gpus, width, at).height, 0));
  const found = heights.findIndex((one) => one <= HEIGHT_PX);
  return found < 0 ? SIZES.length - 1 : found;
}

/** Squares of SIZES[at]; small ones have no names. */
export function layout(nodes: number, gpus: number, width: number, at: number): Layout {
  const size = SIZES[at] ?? 5;
  const perRow = Math.max(1, Math.min(gpus, 8));
  const lines = Math.ceil(gpus / perRow);
  const [gap, label, between] = size >= 10 ? [3, 15, 14] : [1, 0, 5];
  const blockWidth = perRow * (size + gap) + between;
  const blockHeight = lines * (size + gap) + label + Math.ceil(between / 2);
  const across = Math.max(1, Math.floor((width + between) / blockWidth));
  return { size, gap, label, perRow, lines, across, blockWidth, blockHeight, height: Math.ceil(nodes / across) * blockHeight };
}

export function GpuGrid({ groups }: { groups: readonly GpuGroup[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState(0);
  const [hover, setHover] = useState("");
  const drawn = useMemo(() => groups.map((one) => ({ ...one, blocks: blocksOf(one.cells) })), [groups]);
  const most = drawn.flatMap((one) => one.blocks).reduce((sum, one) => Math.max(sum, one.cells.length), 1);
  const hovered = hover ? groups.flatMap((one) => one.cells).find((one) => one.key === hover) : undefined;
  const fit = fitting(drawn.map((one) => one.blocks.length), most, width);
  const at = Math.max(0, Math.min(SIZES.length - 1, fit - zoom));
  useEffect(() => {
    if (!box.current) return undefined;
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  return (
    <div class="gpu-grid">
      <div ref={box} class="gpu-groups" tabIndex={0} role="region" aria-label="Picture of all GPUs">
        {drawn.map((one) => (
          <div key={one.name} class="gpu-group">
            {one.name && <h3>{one.name} <small class="faint">{count(one.blocks.length, "node")}</small></h3>}
            <Blocks name={one.name} cells={one.cells} blocks={one.blocks} plan={layout(one.blocks.length, most, width, at)} width={width} onHover={setHover} />
          </div>
        ))}
      </div>
      <div class="gpu-foot">
        <p class="faint hint">{hovered ? hovered.label() : "Point at a GPU to see its jobs; a click opens its node."}</p>
        <div class="buttons">
          <button type="button" class="icon" aria-label="Smaller squares" disabled={at === SIZES.length - 1} onClick={() => setZoom(fit - at - 1)}>−</button>
          <button type="button" class="icon" aria-label="Larger squares" disabled={at === 0} onClick={() => setZoom(fit - at + 1)}>+</button>
        </div>
      </div>
    </div>
  );
}

/** One group's canvas. */
function Blocks(props: {
  name: string; cells: readonly GpuCell[]; blocks: readonly Block[]; plan: Layout; width: number; onHover: (key: string) => void;
}): JSX.Element {
  const { cells, blocks, plan, width } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useStore(themeChanges);
  useEffect(() => {
    if (canvas.current && width) draw(canvas.current, blocks, plan, width);
  }, [blocks, plan.size, width, theme]);
  const under = (event: MouseEvent): GpuCell | null => found(blocks, plan, event.offsetX, event.offsetY);
  return (
    <canvas
      ref={canvas} role="img" aria-label={labelOf(props.name, cells, blocks.length)} onMouseMove={(event) => props.onHover(under(event)?.key ?? "")}
      onMouseLeave={() => props.onHover("")}
      onClick={(event) => {
        const cell = under(event);
        if (cell) location.hash = link(["nodes", cell.node]);
      }}
    />
  );
}

/** Meanings that a label counts; of more (jobs) only the number of squares is said. */
const COUNTED_MAX = 6;

function labelOf(name: string, cells: readonly GpuCell[], nodes: number): string {
  const sums = new Map<string, number>();
  for (const { paint } of cells) sums.set(paint.text, (sums.get(paint.text) ?? 0) + 1);
  const parts = sums.size <= COUNTED_MAX ? `: ${[...sums].map(([text, number]) => `${number} ${text}`).join(", ")}` : "";
  return `${name ? `${name}: ` : ""}${count(cells.length, "GPU")} on ${count(nodes, "node")}${parts}. The table below has the same.`;
}

function place(index: number, plan: Layout): [number, number] {
  return [(index % plan.across) * plan.blockWidth, Math.floor(index / plan.across) * plan.blockHeight];
}

function draw(canvas: HTMLCanvasElement, blocks: readonly Block[], plan: Layout, width: number): void {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = plan.height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${plan.height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const colours = new Map<string, string>();
  const known = (name: string): string => {
    const value = colours.get(name) ?? colour(name);
    colours.set(name, value);
    return value;
  };
  context.scale(scale, scale);
  context.font = `12px ${style.fontFamily}`;
  context.textBaseline = "alphabetic";
  blocks.forEach((block, index) => {
    const [x, y] = place(index, plan);
    context.fillStyle = known("--faint");
    if (plan.label) context.fillText(block.node, x, y + plan.label - 4, plan.perRow * (plan.size + plan.gap));
    block.cells.forEach((cell, slot) => {
      const cx = x + (slot % plan.perRow) * (plan.size + plan.gap);
      const cy = y + plan.label + Math.floor(slot / plan.perRow) * (plan.size + plan.gap);
      context.fillStyle = known(cell.paint.colour);
      context.beginPath();
      context.roundRect(cx, cy, plan.size, plan.size, plan.size > 9 ? 4 : 1);
      context.fill();
      if (cell.paint.isCrossed && plan.size > 9) cross(context, cx, cy, plan.size, known("--surface"));
      if (cell.paint.isHollow) hollow(context, cx, cy, plan.size, known("--surface"));
    });
  });
}

/** Not by colour alone: what is broken is crossed. */
function cross(context: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  const inset = size * 0.3;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x + inset, y + inset);
  context.lineTo(x + size - inset, y + size - inset);
  context.moveTo(x + size - inset, y + inset);
  context.lineTo(x + inset, y + size - inset);
  context.stroke();
}

/** Not by colour alone: what a job has and leaves idle is hollow. */
function hollow(context: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  const edge = size > 9 ? 3 : 1;
  context.fillStyle = colour;
  context.fillRect(x + edge, y + edge, size - 2 * edge, size - 2 * edge);
}

function found(blocks: readonly Block[], plan: Layout, x: number, y: number): GpuCell | null {
  const [across, down] = [Math.floor(x / plan.blockWidth), Math.floor(y / plan.blockHeight)];
  if (across >= plan.across) return null;
  const block = blocks[down * plan.across + across];
  const column = Math.floor((x - across * plan.blockWidth) / (plan.size + plan.gap));
  const line = Math.floor((y - down * plan.blockHeight - plan.label) / (plan.size + plan.gap));
  if (!block || column >= plan.perRow || line < 0 || line >= plan.lines) return null;
  return block.cells[line * plan.perRow + column] ?? null;
}
