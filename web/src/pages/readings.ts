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
 * What GPUs do now. No event says that it has changed: of all nodes it is asked for when the page asks for everything, of one node
 * at the interval at which that samples its GPUs.
 */
export function useReadings(node = ""): readonly GpuReading[] {
  const query = node && `?nodes=${encodeURIComponent(node)}`;
  return useAnswer<GpuReadingsAnswer>(`${OWN}/gpus/readings${query}`, EVERY_MS, node ? changes : undefined).data?.readings ?? NONE;
}
