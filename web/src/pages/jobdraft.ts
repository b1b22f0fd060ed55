import { useEffect, useMemo, useState } from "preact/hooks";

import { ApiError, ask, OWN, read, session, SLURM } from "../api/client";
import type { JobDetailsAnswer, JobsAnswer, LintAnswer } from "../api/types";
import { type Finding, stillSaid } from "../lib/lint";
import { jobOf, optionsOf } from "../lib/options";
import { Store, useStore } from "../lib/store";

/** A script that is no job yet, and what the controller says of it. Submit and Plan have one between them. */

export const START = "#!/bin/bash -l\n#SBATCH --job-name=job\n#SBATCH --time=1:00:00\n\nhostname\n";
const PATH = "PATH=/usr/local/bin:/usr/bin:/bin";
/** The script as it stands, until it is submitted. */
export const draft = new Store(START);
/** The planner is asked when nothing was typed for this time. */
const PAUSE_MS = 400;

export interface Drafted {
  readonly job: Record<string, unknown>;
  readonly options: ReturnType<typeof optionsOf>["options"];
  readonly problems: ReturnType<typeof optionsOf>["problems"];
  /** The folder in which it runs if it names none. */
  readonly usual: string;
  /** Whether the controller can be asked. */
  readonly isReady: boolean;
}

/** The job that a script describes. */
export function useDrafted(script: string, folder: string): Drafted {
  const me = useStore(session)?.user ?? "";
  const usual = useUsualFolder(me, folder);
  const { options, problems } = useMemo(() => optionsOf(script), [script]);
  const job = useMemo(
    () => jobOf(script, { name: "job", current_working_directory: usual, environment: [PATH, `USER=${me}`, `LOGNAME=${me}`] }),
    [script, usual, me],
  );
  return { job, options, problems, usual, isReady: usual !== "" && problems.length === 0 };
}

/** Where the user's last job ran; the home of most users where there is none. */
function useUsualFolder(me: string, given: string): string {
  const [folder, setFolder] = useState(given);
  useEffect(() => {
    if (given) return;
    const home = me === "root" ? "/root" : `/home/${me}`;
    const last = async (): Promise<string> => {
      const jobs = await read<JobsAnswer>(`${OWN}/jobs?users=${encodeURIComponent(me)}&order=-job_id&count=1`);
      const id = jobs?.data.jobs[0]?.job_id;
      const found = id ? await read<JobDetailsAnswer>(`${SLURM}/job/${id}`) : null;
      return found?.data.jobs[0]?.current_working_directory || home;
    };
    last().then(setFolder, () => setFolder(home));
  }, [me, given]);
  return folder;
}

export interface Verdict<T> {
  readonly answer: T | null;
  readonly error: ApiError | null;
}

/** What the controller says of the job as it stands, by a path that queues nothing; null until it has answered. */
export function useVerdict<T>(path: "jobs/test" | "plan/with", job: Record<string, unknown> | null): Verdict<T> | null {
  const [verdict, setVerdict] = useState<Verdict<T> | null>(null);
  useEffect(() => {
    setVerdict(null); // what was said of another job is not shown as if it was said of this one
    if (!job) return;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      ask<T>(`${OWN}/${path}`, { job }, abort.signal).then(
        (answer) => setVerdict({ answer, error: null }),
        (error: unknown) => error instanceof ApiError && setVerdict({ answer: null, error }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [path, job]);
  return verdict;
}

export interface Linted {
  readonly findings: readonly Finding[];
  /** What is to be said of the check itself; "": all of the script was read. */
  readonly note: string;
}

/** What `sbatch --lint` finds in the script as it stands; until it has answered, what still holds of its last answer. */
export function useLint(script: string): Linted {
  const [last, setLast] = useState<{ about: string; findings: readonly Finding[]; note: string }>({ about: "", findings: [], note: "" });
  useEffect(() => {
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      ask<LintAnswer>(`${OWN}/jobs/lint`, { script }, abort.signal).then(
        ({ findings, lines_read }) => setLast({ about: script, findings, note: noteOf(script, lines_read) }),
        (error: unknown) => error instanceof ApiError && setLast({ about: script, findings: [], note: `The lines were not checked. ${error.message}` }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [script]);
  const findings = useMemo(() => stillSaid(last.findings, last.about, script), [last, script]);
  return { findings, note: last.about === script ? last.note : "" };
}

function noteOf(script: string, read: number): string {
  const lines = script.split("\n").length - (script.endsWith("\n") ? 1 : 0);
  return read < lines ? `The first ${read} of ${lines} lines are checked.` : "";
}
