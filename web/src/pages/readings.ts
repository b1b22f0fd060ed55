import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { GpuReadingsAnswer } from "../api/types";
import type { GpuReading } from "../lib/gpufigures";

/** Nodes sample their GPUs at this interval, if the site has no other. */
const EVERY_MS = 10_000;
const NONE: readonly GpuReading[] = [];

function changes(): boolean {
  return true;
}

/**
 * What these GPUs do now: of all nodes, or of one. No event says that it has changed: of all nodes it is asked for when the page asks
 * for everything, of one node at the interval at which that samples its GPUs. It is asked for after the GPUs are known, since they can
 * be shown without it, and nothing of a cluster that has none.
 */
export function useReadings(gpus: readonly unknown[] | undefined, node = ""): readonly GpuReading[] {
  const path = `${OWN}/gpus/readings${node && `?nodes=${encodeURIComponent(node)}`}`;
  return useAnswer<GpuReadingsAnswer>(gpus?.length ? path : "", EVERY_MS, node ? changes : undefined).data?.readings ?? NONE;
}
