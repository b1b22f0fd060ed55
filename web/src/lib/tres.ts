import { count, memory } from "./units";

/** TRES texts of Slurm, as people read them. */

/** `gres/gpu:h200` without what every reader knows; what stands behind it in brackets stays. */
export function tresName(text: string): string {
  const [name = "", remark] = text.split(/ (?=\()/, 2);
  return shortName(name) + (remark ? ` ${remark}` : "");
}

function shortName(name: string): string {
  const known: Readonly<Record<string, string>> = { "cpu": "CPUs", "mem": "memory", "node": "nodes", "gres/gpu": "GPUs" };
  return Object.hasOwn(known, name) ? (known[name] ?? name) : name.replace(/^gres\/gpu:/, "").replace(/^(gres|license)\//, "");
}

function mebibytes(text: string): number | null {
  const found = /^(\d+(?:\.\d+)?)([KMGT]?)$/.exec(text);
  if (!found) return null;
  const powers: Readonly<Record<string, number>> = { K: 1 / 1024, "": 1, M: 1, G: 1024, T: 1024 * 1024 };
  return Number(found[1]) * (powers[found[2] ?? ""] ?? 1);
}

function part(name: string, value: string): string {
  const number = Number(value);
  if (name === "mem") {
    const mb = mebibytes(value);
    return mb === null ? `memory ${value}` : memory(mb);
  }
  if (name === "cpu") return count(number, "CPU");
  if (name === "node") return count(number, "node");
  if (name === "gres/gpu") return count(number, "GPU");
  return `${value} ${tresName(name)}`;
}

/** `cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:h200=2` as `4 CPUs, 16 GiB, 1 node, 2 GPUs (2 h200)`, without billing. */
export function readTres(text: string): string {
  const parts = text.split(",").filter(Boolean).map((one) => one.split("=", 2) as [string, string?]);
  const types = parts.filter(([name]) => name.startsWith("gres/gpu:")).map(([name, value]) => part(name, value ?? ""));
  const rest = parts.filter(([name]) => name !== "billing" && !name.startsWith("gres/gpu:"));
  const hasGpus = rest.some(([name]) => name === "gres/gpu");
  const said = rest.map(([name, value]) => part(name, value ?? "") + (name === "gres/gpu" && types.length ? ` (${types.join(", ")})` : ""));
  return [...said, ...(hasGpus ? [] : types)].join(", ");
}

/** A value of `--gpus` and its like: `2` as `2 GPUs`, `h200:2` as `2 h200`; another text as it is. */
export function readGpus(text: string): string {
  const found = /^(?:([^:=]+)[:=])?(\d+)$/.exec(text);
  if (!found) return text;
  return found[1] ? `${found[2]} ${found[1]}` : count(Number(found[2]), "GPU");
}
