import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Asker, AWAITED_MS, type Question, type Tagged } from "./asker";

type Reply = Tagged<string> | null | Error;

/** A page with one question; each request waits until it is answered. */
class Page implements Question<string> {
  readonly asked: string[] = []; // the tag of each
  readonly shown: string[] = [];
  readonly tookMs: number[] = [];
  awaited: readonly string[] = [];
  seen = true;
  partMs = 0; // a clock knows parts of a millisecond
  private waiting: ((reply: Reply) => void) | undefined;

  constructor(readonly everyMs = 0) {}

  readonly ask = (tag: string): Promise<Tagged<string> | null> => {
    this.asked.push(tag);
    return new Promise((resolve, reject) => {
      this.waiting = (reply) => (reply instanceof Error ? reject(reply) : resolve(reply));
    });
  };
  readonly found = (data: string): boolean => {
    this.shown.push(data);
    return this.awaited.includes(data);
  };
  readonly failed = (error: unknown): void => void this.shown.push(String(error));
  readonly took = (ms: number): void => void this.tookMs.push(ms);
  readonly isSeen = (): boolean => this.seen;
  readonly nowMs = (): number => Date.now() + this.partMs;

  /** Answers the request that waits. */
  async answer(reply: Reply | string): Promise<void> {
    this.waiting?.(typeof reply === "string" ? { data: reply, tag: `tag of ${reply}` } : reply);
    this.waiting = undefined;
    await vi.advanceTimersByTimeAsync(0);
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("what happens while an answer is on its way is one more question", async () => {
  const page = new Page();
  const asker = new Asker(page);
  void asker.ask();
  for (let event = 0; event < 3; event++) void asker.ask();
  expect(page.asked).toEqual([""]);
  await vi.advanceTimersByTimeAsync(30);
  await page.answer("a");
  expect([page.shown, page.asked, page.tookMs]).toEqual([["a"], ["", "tag of a"], [30]]);
  await page.answer(null); // it is the same
  expect([page.shown, page.asked.length, vi.getTimerCount()]).toEqual([["a"], 2, 0]);
  void asker.ask();
  expect(page.asked[2]).toBe("tag of a");
});

test("what is asked too soon is asked when it may be, once", async () => {
  const page = new Page(1000);
  const asker = new Asker(page);
  void asker.ask();
  void asker.ask();
  await page.answer("a");
  await vi.advanceTimersByTimeAsync(400);
  void asker.ask();
  expect([page.asked.length, vi.getTimerCount()]).toEqual([1, 1]);
  await vi.advanceTimersByTimeAsync(599);
  expect(page.asked.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect([page.asked.length, vi.getTimerCount()]).toEqual([2, 0]);
});

test.each([0.25, 0.999, 1e-9])("%s ms that are left are waited for by one timer", async (partMs) => {
  const page = new Page(1000);
  const asker = new Asker(page);
  page.partMs = partMs;
  void asker.ask();
  await page.answer("a");
  page.partMs = 0; // it now ends in a part of a millisecond
  await vi.advanceTimersByTimeAsync(1000);
  const timers = vi.spyOn(globalThis, "setTimeout");
  void asker.ask();
  expect(timers.mock.calls.map(([, afterMs]) => afterMs)).toEqual(partMs < 1e-6 ? [] : [1]);
  await vi.advanceTimersByTimeAsync(1);
  expect([page.asked.length, timers.mock.calls.length]).toEqual([2, partMs < 1e-6 ? 0 : 1]);
});

test("an answer that is about to change is asked for again, until it has", async () => {
  const page = new Page();
  page.awaited = ["starting"];
  void new Asker(page).ask();
  await page.answer("starting");
  await vi.advanceTimersByTimeAsync(AWAITED_MS - 1);
  expect(page.asked.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  await page.answer(null);
  await vi.advanceTimersByTimeAsync(AWAITED_MS);
  await page.answer("ready");
  await vi.advanceTimersByTimeAsync(10 * AWAITED_MS);
  expect([page.shown, page.asked.length]).toEqual([["starting", "ready"], 3]);
});

test("no timer asks while the page is not seen", async () => {
  const page = new Page(1000);
  page.awaited = ["a"];
  const asker = new Asker(page);
  void asker.ask();
  await page.answer("a");
  page.seen = false;
  await vi.advanceTimersByTimeAsync(10 * AWAITED_MS);
  expect([page.asked.length, vi.getTimerCount()]).toEqual([1, 0]);
  page.seen = true;
  void asker.ask(); // as it is when it is seen again
  expect(page.asked.length).toBe(2);
});

test("an error is shown, and asked about again no sooner than an answer", async () => {
  const page = new Page(1000);
  page.awaited = ["a"];
  const asker = new Asker(page);
  void asker.ask();
  await page.answer("a");
  await vi.advanceTimersByTimeAsync(AWAITED_MS);
  void asker.ask(); // an event, while the request is on its way
  await page.answer(new Error("the daemon does not answer"));
  expect([page.shown, page.asked.length, vi.getTimerCount()]).toEqual([["a", "Error: the daemon does not answer"], 2, 1]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(page.asked).toEqual(["", "tag of a", "tag of a"]);
  await page.answer(new Error("again"));
  await vi.advanceTimersByTimeAsync(AWAITED_MS); // what was awaited still is
  expect(page.asked.length).toBe(4);
});

test("an error of an answer that nothing is awaited of is left until something happens", async () => {
  const page = new Page();
  const asker = new Asker(page);
  void asker.ask();
  await page.answer(new Error("no"));
  await vi.advanceTimersByTimeAsync(10 * AWAITED_MS);
  expect([page.asked.length, vi.getTimerCount()]).toEqual([1, 0]);
  void asker.ask();
  await page.answer("a");
  expect(page.shown).toEqual(["Error: no", "a"]);
});

test.each(["late", null, new Error("late")])("after the end nothing is asked, and %s is not shown", async (reply) => {
  const page = new Page(1000);
  page.awaited = ["late"];
  const asker = new Asker(page);
  void asker.ask();
  void asker.ask();
  asker.close();
  await page.answer(reply);
  void asker.ask();
  await vi.advanceTimersByTimeAsync(10 * AWAITED_MS);
  expect([page.shown, page.asked.length, page.tookMs.length, vi.getTimerCount()]).toEqual([[], 1, 1, 0]);
});

test("the end ends a wait", async () => {
  const page = new Page(1000);
  const asker = new Asker(page);
  void asker.ask();
  await page.answer("a");
  void asker.ask();
  expect(vi.getTimerCount()).toBe(1);
  asker.close();
  expect(vi.getTimerCount()).toBe(0);
});
