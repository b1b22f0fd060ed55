import { expect, test } from "vitest";

import { readScript, SCRIPT_MIB_MAX, scriptOf } from "./scriptfile";

const of = (text: string): Uint8Array => new TextEncoder().encode(text);

test("a script is taken as it is, without a byte order mark", () => {
  expect(scriptOf("a.sh", of("#!/bin/sh\necho 'ü \r x'\n"))).toEqual({ script: "#!/bin/sh\necho 'ü \r x'\n", note: "" });
  expect(scriptOf("a.sh", of("\ufeff#!/bin/sh\n")).script).toBe("#!/bin/sh\n");
});

test("DOS line breaks are replaced, and this is said", () => {
  const found = scriptOf("a.sh", of("#!/bin/sh\r\nhostname\r\n"));
  expect(found.script).toBe("#!/bin/sh\nhostname\n");
  expect(found.note).toContain("a.sh had DOS line breaks (\\r\\n)");
});

test("what is no script is refused with its name and the reason", async () => {
  expect(() => scriptOf("a.out", new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 0]))).toThrow("a.out is a binary file");
  expect(() => scriptOf("a.sh", new Uint8Array([0x23, 0x21, 0xfc, 0x0a]))).toThrow("a.sh is not in UTF-8");
  expect(() => scriptOf("a.sh", of(""))).toThrow("a.sh is empty");
  const large = new File([new Uint8Array(SCRIPT_MIB_MAX * 1024 * 1024 + 1)], "data.bin");
  await expect(readScript(large)).rejects.toThrow("data.bin has 4.0 MiB. A script has 4 MiB at most");
});
