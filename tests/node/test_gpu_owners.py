"""Whose a process on a GPU is: by its supervisor, by its environment, by nobody's word. Real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nodedaemon.base import proctree
from nodedaemon.core.gpuhealth_messages import GpuOwner
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu.owners import JobsOfGpus, knows_pids, owners

WAIT = "import sys; print(flush=True); sys.stdin.read()"
ME = os.geteuid()


@contextmanager
def process(**env: str) -> Iterator[int]:
    command = [sys.executable, "-c", WAIT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, **env}) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.kill()


def test_a_descendant_of_a_supervisor_is_its_jobs() -> None:
    with process() as pid:
        step = StepKey(7, 2, 0)
        jobs = JobsOfGpus((), {os.getpid(): step}, [])
        assert jobs.owner(pid) == GpuOwner(pid, True, ME, (7, 2), proctree.start_time(pid), step)


def test_an_environment_names_a_job_of_the_same_user_only() -> None:
    with process(SLURM_JOB_ID="7") as pid:
        start = proctree.start_time(pid)
        assert JobsOfGpus((), {}, [((7, 1), ME)]).owner(pid) == GpuOwner(pid, True, ME, (7, 1), start)
        assert JobsOfGpus((), {}, [((7, 1), ME + 1)]).owner(pid) == GpuOwner(pid, True, ME, None, start)
        assert JobsOfGpus((), {}, [((8, 1), ME)]).owner(pid) == GpuOwner(pid, True, ME, None, start)


def test_what_nobody_explains_is_nobodys() -> None:
    with process() as pid:
        assert JobsOfGpus(("/sys/fs/cgroup/freezer/penstock-n1",), {}, []).owner(pid).job is None


def test_a_process_that_is_gone_does_not_exist() -> None:
    with process() as pid:
        pass
    assert owners([pid], JobsOfGpus((), {}, [])) == (GpuOwner(pid, False),)


def test_a_group_of_this_node_names_the_job(monkeypatch) -> None:
    texts = {
        "/penstock-n1/7.1.0": (7, 1), "/x/penstock-n1/7.1/-5/task_0": (7, 1), "/penstock-n2/7.1.0": None,
        "/penstock-n1/other": None,
    }  # fmt: skip
    with process() as pid:
        for path, job in texts.items():
            monkeypatch.setattr("nodedaemon.gpu.owners.read_text", lambda name, path=path: f"9:freezer:{path}\n")
            assert JobsOfGpus(("/sys/fs/cgroup/freezer/penstock-n1",), {}, []).owner(pid).job == job


def test_where_pids_are_another_namespaces_nobody_is_judged_by_them(monkeypatch) -> None:
    for link, said, known in (
        ("pid:[4026531836]", "", True),
        ("pid:[4026532000]", "", False),
        ("pid:[1]", "here", True),
    ):
        monkeypatch.setattr("os.readlink", lambda path, link=link: link)
        monkeypatch.setenv("PENSTOCK_GPU_PIDS", said)
        assert knows_pids() is known


def test_a_process_that_proc_hides_exists(monkeypatch) -> None:
    def hidden(path: str) -> None:
        raise FileNotFoundError(path)

    with process() as pid, monkeypatch.context() as patch:
        patch.setattr("os.stat", hidden)
        assert JobsOfGpus((), {}, []).owner(pid) == GpuOwner(pid, True)
