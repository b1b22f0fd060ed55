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
