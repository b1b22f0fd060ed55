import type { JSX } from "preact";

import { OWN, session } from "../api/client";
import { useAnswer } from "../api/live";
import type { JobsAnswer } from "../api/types";
import { link } from "../lib/route";
import { useStore } from "../lib/store";
import { Card, Empty, JobState, Time } from "../parts/bits";
import { jobLink } from "./overview";

const SHOWN = 6;

/** What a new job may begin with: the user's last ones. */
export function LastJobs(): JSX.Element {
  const me = useStore(session)?.user ?? "";
  const latest = useAnswer<JobsAnswer>(`${OWN}/jobs?${new URLSearchParams({ users: me, order: "-job_id", count: `${SHOWN}` })}`);
  const jobs = latest.data?.jobs ?? [];
  return (
    <Card title="My last jobs">
      {jobs.length ? (
        <ul class="list">
          {jobs.map((one) => (
            <li key={one.shown_id}>
              {jobLink(one)}
              <span class="faint"><Time us={one.submit_at_us} isRelative /></span>
              <JobState state={one.state} />
              <a class="button" href={link(["submit"], new URLSearchParams({ from: one.shown_id }))} aria-label={`Submit job ${one.shown_id} again`}>Again</a>
            </li>
          ))}
        </ul>
      ) : <Empty>You have no jobs yet.</Empty>}
    </Card>
  );
}
