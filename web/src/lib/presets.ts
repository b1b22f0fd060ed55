import type { GpuInfo } from "../api/types";

/** What a form may begin with, of the types of GPU that a cluster has. */

export interface Preset {
  readonly title: string;
  /** As `--gpus` and `--gpus-per-node` have it. */
  readonly gpus: string;
  /** A whole node's GPUs, on one node. */
  readonly isNode: boolean;
}

type OfNode = Pick<GpuInfo, "type"> & { readonly node: string };

export function presetsOf(gpus: readonly OfNode[]): readonly Preset[] {
  const ofNodes = new Map<string, Map<string, number>>();
  for (const { type, node } of gpus) {
    const nodes = ofNodes.get(type) ?? new Map<string, number>();
    ofNodes.set(type, nodes.set(node, (nodes.get(node) ?? 0) + 1));
  }
  return [...ofNodes].sort((one, other) => one[0].localeCompare(other[0])).flatMap(([type, nodes]) => {
    const most = Math.max(...nodes.values());
    const of = (number: number, isNode: boolean): Preset => {
      const what = type || (number === 1 ? "GPU" : "GPUs");
      return { title: isNode ? `a node with ${number} ${what}` : `${number} ${what}`, gpus: `${type ? `${type}:` : ""}${number}`, isNode };
    };
    return most > 1 ? [of(1, false), of(most, true)] : [of(1, false)];
  });
}
