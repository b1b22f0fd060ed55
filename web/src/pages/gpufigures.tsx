import type { JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";

import { OWN, session } from "../api/client";
import { useAnswer } from "../api/live";
import type { ProfileAnswer } from "../api/types";
import type { NodeProfile } from "../lib/gpufigures";
import type { JobRow } from "../lib/model";
import { useStore } from "../lib/store";

/** Profiles of the jobs on a node, while its page is looked at: nodes answer the job's user and operators, so the others are not asked for. */

const EVERY_MS = 15_000;
/** A node has few jobs with GPUs; each is a question to the node. */
const JOBS_MAX = 8;

type Take = (job: number, profiles: readonly NodeProfile[]) => void;

/** The profiles that are known, and what asks for them, which is to be drawn and shows nothing. `ids`: the jobs that have GPUs. */
export function useProfiles(node: string, jobs: readonly JobRow[], ids: readonly number[]): [readonly NodeProfile[], JSX.Element] {
  const me = useStore(session);
  const [found, setFound] = useState<ReadonlyMap<number, readonly NodeProfile[]>>(new Map());
  const take = useCallback<Take>((job, profiles) => setFound((before) => new Map(before).set(job, profiles)), []);
  const asked = jobs.filter((one) => ids.includes(one.job_id) && (me?.manages || one.user_name === me?.user)).slice(0, JOBS_MAX);
  return [
    asked.flatMap((one) => found.get(one.job_id) ?? []),
    <>{asked.map((one) => <Asker key={one.job_id} job={one.job_id} node={node} take={take} />)}</>,
  ];
}

function Asker({ job, node, take }: { job: number; node: string; take: Take }): null {
  const { data } = useAnswer<ProfileAnswer>(`${OWN}/jobs/${job}/profile?nodes=${encodeURIComponent(node)}`, EVERY_MS);
  useEffect(() => take(job, data?.profiles ?? []), [data]);
  return null;
}
