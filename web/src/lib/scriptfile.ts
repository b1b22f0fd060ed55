/** A script that is taken from a file: its text, or what is wrong with the file, in words. */

/** A larger file is no script; the daemon takes as much. */
export const SCRIPT_MIB_MAX = 4;
const MIB = 1024 * 1024;

export interface ReadScript {
  readonly script: string;
  /** What was changed in it; "": nothing. */
  readonly note: string;
}

/** Reads a file. Throws an Error that says what is wrong with it. */
export async function readScript(file: File): Promise<ReadScript> {
  if (file.size > SCRIPT_MIB_MAX * MIB) {
    throw new Error(`${file.name} has ${(file.size / MIB).toFixed(1)} MiB. A script has ${SCRIPT_MIB_MAX} MiB at most: submit a script that starts it.`);
  }
  const bytes = await file.arrayBuffer().catch(() => {
    throw new Error(`${file.name} could not be read: choose it again.`);
  });
  return scriptOf(file.name, new Uint8Array(bytes));
}

export function scriptOf(name: string, bytes: Uint8Array): ReadScript {
  if (!bytes.length) throw new Error(`${name} is empty.`);
  if (bytes.includes(0)) throw new Error(`${name} is a binary file and no script: submit a script that starts it.`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${name} is not in UTF-8: convert it (iconv -t UTF-8), or submit it with sbatch.`);
  }
  const script = text.replaceAll("\r\n", "\n");
  const note = script === text ? "" : `${name} had DOS line breaks (\\r\\n), with which no script runs: they were replaced by \\n.`;
  return { script, note };
}
