/**
 * One question of a page, asked again when its answer may be another one: when something has happened that it concerns, and when
 * an answer said that it is about to change. One request at a time; what comes meanwhile is one more question after it.
 */

/** What is about to change without an event is asked again so soon. */
export const AWAITED_MS = 2000;

export interface Tagged<T> {
  readonly data: T;
  readonly tag: string;
}

/** What an asker needs of the page. */
export interface Question<T> {
  /** It is asked again at most so often. */
  readonly everyMs: number;
  /** Asks; null: the answer still has this tag. */
  readonly ask: (tag: string) => Promise<Tagged<T> | null>;
  /** Takes an answer; returns whether it is about to change without an event. */
  readonly found: (data: T) => boolean;
  readonly failed: (error: unknown) => void;
  /** Takes the time of a request. */
  readonly took: (ms: number) => void;
  /** Whether the page is seen: no timer asks while it is not, since all is asked when it is seen again. */
  readonly isSeen: () => boolean;
  readonly nowMs: () => number;
}

export class Asker<T> {
  private tag = "";
  private isBusy = false;
  private isStale = false; // the answer that is on its way may be of before
  private isAwaited = false;
  private isClosed = false;
  private lastMs = -Infinity;
  private later: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly question: Question<T>) {}

  /** Asks now, or as soon as it may. */
  async ask(): Promise<void> {
    if (this.isBusy) this.isStale = true;
    if (this.isBusy || this.isClosed) return;
    const askedMs = this.question.nowMs();
    const leftMs = this.question.everyMs - (askedMs - this.lastMs);
    if (leftMs > 0) {
      this.askLater(Math.ceil(leftMs)); // timers know no parts of a millisecond
      return;
    }
    this.isBusy = true;
    this.isStale = false;
    this.lastMs = askedMs;
    await this.exchange();
    this.isBusy = false;
    this.question.took(this.question.nowMs() - askedMs);
    if (this.isClosed) return;
    if (this.isStale) void this.ask();
    else if (this.isAwaited) this.askLater(AWAITED_MS);
  }

  /** Asks nothing more, and takes no answer. */
  close(): void {
    this.isClosed = true;
    clearTimeout(this.later);
  }

  private async exchange(): Promise<void> {
    try {
      const answer = await this.question.ask(this.tag);
      if (!answer || this.isClosed) return;
      this.tag = answer.tag;
      this.isAwaited = this.question.found(answer.data);
    } catch (error) {
      if (!this.isClosed) this.question.failed(error);
    }
  }

  private askLater(afterMs: number): void {
    clearTimeout(this.later);
    this.later = setTimeout(() => {
      if (this.question.isSeen()) void this.ask();
    }, afterMs);
  }
}
