import { useEffect, useState } from "preact/hooks";

/** A value that components follow. */
export class Store<T> {
  private readonly followers = new Set<() => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (value === this.current) return;
    this.current = value;
    for (const one of [...this.followers]) one();
  }

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

/** The value of a store; the component is drawn again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    const update = (): void => setValue(() => store.value);
    update();
    return store.follow(update);
  }, [store]);
  return value;
}
