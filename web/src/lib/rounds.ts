/**
 * When a page asks again after something has happened: so soon that it is seen within a second, together with what happens at the
 * same moment; not all pages at once; and, while the daemon answers slowly, with a long rest between two rounds of questions.
 */

/** Changes of so long are answered together. */
export const GATHER_MS = 200;
/** Some of this is added, by chance, more where answers take longer: pages that learn of a change together ask one after another. */
export const SPREAD_MIN_MS = 100;
export const SPREAD_MAX_MS = 400;
const SPREAD_FACTOR = 2;
/** Between the begins of two rounds there are so many times what the slowest answer of the first one took. */
export const REST_FACTOR = 6;
export const REST_MAX_MS = 6000;

export class Rounds {
  private beganMs = -Infinity;
  private slowestMs = 0; // of the last round

  /** How long to wait after a change. `chance`: from 0 to 1. */
  waitMs(nowMs: number, chance: number): number {
    const spreadMs = Math.min(SPREAD_MAX_MS, Math.max(SPREAD_MIN_MS, SPREAD_FACTOR * this.slowestMs));
    const restMs = Math.min(REST_MAX_MS, REST_FACTOR * this.slowestMs);
    return Math.max(GATHER_MS, this.beganMs + restMs - nowMs) + chance * spreadMs;
  }

  /** A round begins. */
  begin(nowMs: number): void {
    this.beganMs = nowMs;
    this.slowestMs = 0;
  }

  /** An answer took so long. */
  took(ms: number): void {
    this.slowestMs = Math.max(this.slowestMs, ms);
  }
}
