/** Whether a list as `n[1-4,7],login1` names a node, without expanding it. */
export function names(list: string, node: string): boolean {
  return split(list).some((one) => matches(one, node));
}

function split(list: string): string[] {
  return list.match(/[^,[\]]*(?:\[[^\]]*\][^,[\]]*)*/g)?.filter(Boolean) ?? [];
}

function matches(pattern: string, node: string): boolean {
  const open = pattern.indexOf("[");
  if (open < 0) return pattern === node;
  const close = pattern.indexOf("]", open);
  const head = pattern.slice(0, open);
  if (close < 0 || !node.startsWith(head)) return false;
  for (const range of pattern.slice(open + 1, close).split(",")) {
    const [first = "", last = first] = range.split("-");
    const digits = node.slice(head.length, head.length + first.length);
    const more = /^\d*/.exec(node.slice(head.length))?.[0] ?? "";
    const found = last.length > first.length ? more : digits;
    const isPadded = found.length === first.length || !(first.startsWith("0") || found.startsWith("0"));
    const isIn = /^\d+$/.test(found) && Number(found) >= Number(first) && Number(found) <= Number(last);
    if (isIn && isPadded && matches(pattern.slice(close + 1), node.slice(head.length + found.length))) return true;
  }
  return false;
}

/** The names of a list; null: it has more than `most`. */
export function expand(list: string, most: number): string[] | null {
  let found: string[] = [];
  for (const one of split(list)) {
    const more = expandOne(one, most);
    found = more ? found.concat(more) : found;
    if (!more || found.length > most) return null;
  }
  return found;
}

function expandOne(pattern: string, most: number): string[] | null {
  const [open, close] = [pattern.indexOf("["), pattern.indexOf("]")];
  if (open < 0 || close < open) return [pattern];
  const ends = expandOne(pattern.slice(close + 1), most);
  const numbers = numbersOf(pattern.slice(open + 1, close), most);
  if (!ends || !numbers || ends.length * numbers.length > most) return null;
  return numbers.flatMap((number) => ends.map((end) => pattern.slice(0, open) + number + end));
}

function numbersOf(ranges: string, most: number): string[] | null {
  const found: string[] = [];
  for (const range of ranges.split(",")) {
    const [first = "", last = first] = range.split("-");
    if (Number(last) - Number(first) >= most) return null;
    for (let number = Number(first); number <= Number(last); number++) found.push(String(number).padStart(first.length, "0"));
  }
  return found;
}

/** A list with a node added, or without it if it was there; names apart, as they are typed. */
export function toggled(list: string, node: string): string {
  if (!names(list, node)) return list ? `${list},${node}` : node;
  return (expand(list, 4096) ?? []).filter((one) => one !== node).join(",");
}
