import { expect, test } from "vitest";

import cases from "../../cases/scripts.json";
import { jobOf, optionsOf } from "./options";

/** The job of a script without its text; null: the form refuses it. */
function read(script: string): Record<string, unknown> | null {
  if (optionsOf(script).problems.length) return null;
  return Object.fromEntries(Object.entries(jobOf(script, {})).filter(([name]) => name !== "script"));
}

test("scripts make the jobs that sbatch makes of them", async () => {
  // tests/rest/test_web_scripts.py compares these with sbatch's; `npx vitest run -u` in web/ writes them anew
  const jobs = cases.read.map((script) => ({ script, job: read(script) }));
  await expect(`${JSON.stringify(jobs, null, 1)}\n`).toMatchFileSnapshot("../../cases/jobs.json");
});

test.each(cases.refused)("is a problem: %j", (script) => {
  expect(read(script)).toBeNull();
});
