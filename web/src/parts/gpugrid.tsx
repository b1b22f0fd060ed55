import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { link } from "../lib/route";
import type { GpuUse } from "../lib/states";
import { Store, useStore } from "../lib/store";

/** All GPUs on one canvas: a block a node, a square a GPU. Hovering names one, a click opens its node. */

export interface GpuCell {
  readonly node: string;
  readonly label: string;
  readonly use: GpuUse;
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

/** The largest squares with which all blocks fit in HEIGHT_PX; small ones have no names. */
export function layout(nodes: number, gpus: number, width: number): Layout {
  const perRow = Math.max(1, Math.min(gpus, 8));
  const lines = Math.ceil(gpus / perRow);
  const plan = (size: number): Layout => {
    const [gap, label, between] = size >= 10 ? [3, 15, 14] : [1, 0, 5];
    const blockWidth = perRow * (size + gap) + between;
    const blockHeight = lines * (size + gap) + label + Math.ceil(between / 2);
    const across = Math.max(1, Math.floor((width + between) / blockWidth));
    return { size, gap, label, perRow, lines, across, blockWidth, blockHeight, height: Math.ceil(nodes / across) * blockHeight };
  };
  const plans = [22, 18, 14, 10, 7, 5].map(plan);
  return plans.find((one) => one.height <= HEIGHT_PX) ?? plan(5);
}

export function GpuGrid({ cells }: { cells: readonly GpuCell[] }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<GpuCell | null>(null);
  const theme = useStore(themeChanges);
  const blocks = blocksOf(cells);
  const most = blocks.reduce((sum, one) => Math.max(sum, one.cells.length), 1);
  const plan = layout(blocks.length, most, width);
  useEffect(() => {
    const box = canvas.current?.parentElement;
    if (!box) return;
    const watcher = new ResizeObserver(() => setWidth(box.clientWidth));
    watcher.observe(box);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width) draw(canvas.current, blocks, plan, width);
  }, [cells, width, theme]);
  const at = (event: MouseEvent): GpuCell | null => found(blocks, plan, event.offsetX, event.offsetY);
  const sums = (use: GpuUse): number => cells.filter((one) => one.use === use).length;
  const label = `${cells.length} GPUs on ${blocks.length} nodes: ${sums("busy")} allocated, ${sums("free")} idle, ` +
    `${sums("closed")} closed, ${sums("broken")} broken. The table below has the same.`;
  return (
    <div class="gpu-grid">
      <canvas
        ref={canvas} role="img" aria-label={label} onMouseMove={(event) => setHover(at(event))} onMouseLeave={() => setHover(null)}
        onClick={(event) => {
          const cell = at(event);
          if (cell) location.hash = link(["nodes", cell.node]);
        }}
      />
      <p class="faint hint">{hover ? hover.label : "Point at a GPU to see its jobs; a click opens its node."}</p>
    </div>
  );
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
  const colours: Record<GpuUse, string> = {
    busy: colour("--gpu-busy"), free: colour("--gpu-free"), closed: colour("--gpu-closed"), broken: colour("--gpu-broken"),
  };
  context.scale(scale, scale);
  context.font = `12px ${style.fontFamily}`;
  context.textBaseline = "alphabetic";
  blocks.forEach((block, index) => {
    const [x, y] = place(index, plan);
    context.fillStyle = colour("--faint");
    if (plan.label) context.fillText(block.node, x, y + plan.label - 4, plan.perRow * (plan.size + plan.gap));
    block.cells.forEach((cell, slot) => {
      const cx = x + (slot % plan.perRow) * (plan.size + plan.gap);
      const cy = y + plan.label + Math.floor(slot / plan.perRow) * (plan.size + plan.gap);
      context.fillStyle = colours[cell.use];
      context.beginPath();
      context.roundRect(cx, cy, plan.size, plan.size, plan.size > 9 ? 4 : 1);
      context.fill();
      if (cell.use === "broken" && plan.size > 9) cross(context, cx, cy, plan.size, colour("--surface"));
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

function found(blocks: readonly Block[], plan: Layout, x: number, y: number): GpuCell | null {
  const [across, down] = [Math.floor(x / plan.blockWidth), Math.floor(y / plan.blockHeight)];
  if (across >= plan.across) return null;
  const block = blocks[down * plan.across + across];
  const column = Math.floor((x - across * plan.blockWidth) / (plan.size + plan.gap));
  const line = Math.floor((y - down * plan.blockHeight - plan.label) / (plan.size + plan.gap));
  if (!block || column >= plan.perRow || line < 0 || line >= plan.lines) return null;
  return block.cells[line * plan.perRow + column] ?? null;
}
