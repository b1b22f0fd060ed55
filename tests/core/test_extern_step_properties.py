"""Whatever happens in whatever order: a job's own steps come after all prologs and before all epilogs, and all ends well.

The invariants of the core are checked after every step (world.settle).
"""

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.records.events import CancelJobs, JobFilter, ScriptEnded, UpdateNodes
from penstock.values.states import END_STATES, JobState, NodeFlag
from tests.core.test_extern_steps import EXTERN, Site

JOBS_MAX = 4
ACTS = ("submit", "wide", "up", "fail", "script", "start", "exit", "down", "lose", "cancel", "restart", "advance")
NODES = ("n1", "n2")


class Story:
    """One world, and what may happen in it."""

    def __init__(self, prolog_slurmctld: bool) -> None:
        more = {"prolog_slurmctld": ("/c",)} if prolog_slurmctld else {}
        self.site = Site(nodes=2, cpus=1, prolog=("/p",), epilog=("/e",), prolog_fail_drains=False, **more)
        self.up: dict[tuple[int, int, str], None] = {}

    def check(self) -> None:
        """A script runs only where the extern step is up on all nodes, and has ended before that is terminated anywhere."""
        site = self.site
        for node, running in site.running.items():
            for job_id, attempt in running:
                job = site.core.state.jobs[job_id]
                if job.attempt != attempt:
                    continue
                extern = job.steps[EXTERN]
                assert all(part.state is not JobState.CONFIGURING for part in extern.parts or ())
                assert not getattr(extern, "note", "") or job.steps[-5].state in END_STATES, node

    def act(self, what: str, job_id: int, node: str) -> None:
        """Do it, where it makes sense."""
        site = self.site
        job = site.core.state.jobs.get(job_id)
        key = (job_id, job.attempt) if job is not None else (0, 0)
        runs = next((n for n in NODES if key in site.running[n]), "")
        if what in ("submit", "wide"):
            if site.counters[0] <= JOBS_MAX:
                site.batch(nodes_min=2 if what == "wide" else 1)
        elif what == "up" and key in site.held[node]:
            site.up(job_id, node)
        elif what == "fail" and key in site.held[node]:
            extern = site.core.state.jobs[job_id].steps.get(EXTERN)
            part = next(p for p in extern.parts if p.node == node) if extern and extern.parts else None
            if part is not None and part.state is JobState.CONFIGURING:
                site.down(job_id, node, failure="/p: exit status 1", stage="prolog")
        elif what == "script":
            site.do(ScriptEnded(*key, "" if node == "n1" else "/c: exit status 1"))
        elif what == "start" and runs:
            site.started(job_id)
        elif what == "exit" and runs:
            site.exited(job_id)
        elif what == "exit":
            self.note_end(key)
        elif what == "down" and key in site.held[node] and self.told_to_end(job_id):
            site.down(job_id, node, *(("/e: exit status 1", "epilog") if job_id % 2 else ()))
        elif what == "lose" and key in site.held[node]:
            site.down(job_id, node, failure="supervisor lost", signal=9)
        elif what == "cancel" and job is not None:
            site.do(CancelJobs(site.actor("ann"), JobFilter(ids=(str(job_id),)), reply_to=site.reply_to()))
        elif what == "restart":
            site.restart()
            site.settle()
            for name in NODES:
                site.register(name)
        elif what == "advance":
            site.advance(3)
        self.check()

    def told_to_end(self, job_id: int) -> bool:
        """An extern step ends on request."""
        extern = self.site.core.state.jobs[job_id].steps.get(EXTERN)
        return bool(getattr(extern, "note", ""))

    def note_end(self, key: tuple[int, int]) -> None:
        """The node says that a script which was never launched never started."""
        for node in NODES:
            if key in self.site.tombstones[node]:
                del self.site.tombstones[node][key]
                self.site.report_exit(node, *key, failure="ended before it was started")

    def finish(self) -> None:
        """Faults are over: everything that waits for somebody gets its answer, and all jobs end."""
        site = self.site
        for _ in range(60):
            for node in site.core.state.node_list:
                if node.flags & NodeFlag.DRAIN:
                    root = site.actor("root")
                    site.do(UpdateNodes(root, (node.name,), {"state": "RESUME"}, site.reply_to()))
            for job_id in list(site.core.state.jobs):
                job = site.core.state.jobs[job_id]
                if job.hold:
                    self.act("cancel", job_id, "n1")
                for what, name in (("script", "n1"), ("up", "n1"), ("up", "n2"), ("start", "n1"), ("exit", "n1"),
                                   ("down", "n1"), ("down", "n2")):  # fmt: skip
                    self.act(what, job_id, name)
            site.advance(5)
        left = {i: job.state.name for i, job in site.core.state.jobs.items() if job.state not in END_STATES}
        assert not left, left
        assert not any(site.held.values()), site.held
        assert all(not node.jobs for node in site.core.state.node_list)


moves = st.tuples(st.sampled_from(ACTS), st.integers(1, JOBS_MAX), st.sampled_from(NODES))


@settings(examples(quick=30, full=1000), derandomize=True)
@given(st.lists(moves, max_size=40), st.booleans())
def test_all_jobs_end_and_nothing_runs_outside_its_holders(steps: list[tuple[str, int, str]], script: bool) -> None:
    story = Story(script)
    story.act("submit", 1, "n1")
    for step in steps:
        story.act(*step)
    story.finish()
