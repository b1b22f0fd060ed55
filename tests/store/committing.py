"""A process that commits batches and says so, to be killed: committing.py DATABASE [LAST].

Batch k submits job k, starts job k-1 and ends job k-2. After each commit its job id is printed.
"""

import sys

from ctld.core.records.job import HistoryRow
from ctld.store.committer import Store
from tests.store.making import NOW_US, end, make_job, make_step, start, submitted


def main() -> None:
    store = Store.open(sys.argv[1], "child")
    store.acquire_lease(NOW_US)
    first = store.load(NOW_US, 0, 0).next_job_id
    print("leading", flush=True)
    last = int(sys.argv[2]) if len(sys.argv) > 2 else 10**9
    for sequence, job_id in enumerate(range(first, last + 1), 1):
        batch = submitted(sequence, [make_job(job_id)])
        if job_id > 1:
            running = start(make_job(job_id - 1))
            batch.jobs.append(running)
            batch.steps.append(make_step(running))
        if job_id > 2:
            done = end(start(make_job(job_id - 2)))
            batch.jobs.append(done)
            batch.history.append(HistoryRow(NOW_US, job_id - 2, 0, "end", ""))
        store.commit(batch)
        print(job_id, flush=True)
    store.close()


if __name__ == "__main__":
    main()
