import { expect, test } from "vitest";

import { GATHER_MS, REST_FACTOR, REST_MAX_MS, Rounds, SPREAD_MAX_MS, SPREAD_MIN_MS } from "./rounds";

test("a change after a quiet time is asked for at once, also where answers are slow", () => {
  const rounds = new Rounds();
  expect(rounds.waitMs(1000, 0)).toBe(GATHER_MS);
  expect(rounds.waitMs(1000, 1)).toBe(GATHER_MS + SPREAD_MIN_MS);
  rounds.begin(1000);
  rounds.took(300);
  rounds.took(20);
  expect(rounds.waitMs(60_000, 0)).toBe(GATHER_MS);
  expect(rounds.waitMs(60_000, 1)).toBe(GATHER_MS + SPREAD_MAX_MS);
});

test("of many changes a daemon that answers slowly is asked less often", () => {
  const rounds = new Rounds();
  rounds.begin(1000);
  rounds.took(500);
  expect(rounds.waitMs(1500, 0)).toBe(REST_FACTOR * 500 - 500);
  rounds.took(60_000);
  expect(rounds.waitMs(1500, 0)).toBe(REST_MAX_MS - 500);
  rounds.begin(9000);
  expect(rounds.waitMs(9001, 0)).toBe(GATHER_MS); // the next one is known by its own answers
});
