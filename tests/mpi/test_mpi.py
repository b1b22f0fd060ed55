"""MPI programs under srun, with the libraries that users have: MPICH over PMI, Open MPI over PMIx.

The node daemons are on one machine, but the libraries believe what the step's layout says: ranks of different nodes talk
over the network, ranks of one node over shared memory.
"""

import subprocess
from pathlib import Path
from typing import Any

import jobtraces
import pytest
from livecluster import Done, LiveCluster
from mpivenv import programs_of
from patience import ANSWER_S, END_S

PROGRAMS = Path(__file__).parent / "programs"
#: Library and how it is asked for.
LIBRARIES = [("mpich", "pmi2"), ("openmpi", "pmix")]


#: Loopback alone: interfaces of other tests' network namespaces come and go, and the libraries try all that they see.
#: And ranks that wait sleep, as 64 of them would take all of a machine with few cores.
LIBRARY_SETTINGS: dict[str, Any] = {
    "UCX_NET_DEVICES": "lo",
    "FI_TCP_IFACE": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_threads_pthreads_yield_strategy": "nanosleep",
    "OMPI_MCA_threads_pthreads_nanosleep_time": "1000000",
}


def srun(cluster: LiveCluster, group: str, *words: str) -> Done:
    """srun with the environment's programs first on PATH. Ranks that wait for each other in vain are shown and ended:
    they poll, and whatever came next would have to share the machine with them.
    """
    path = f"{programs_of(group)}:{cluster.environment()['PATH']}"
    process = cluster.popen("srun", *words, env={**LIBRARY_SETTINGS, **jobtraces.FAULT_HANDLER, "PATH": path})
    try:
        out, err = process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        shown = "\n".join(jobtraces.traces(job.job_id, cluster.work) for job in cluster.active())
        cluster.clean()
        out, err = process.communicate(timeout=ANSWER_S)
        raise AssertionError(f"srun waited in vain\n{shown}\n{out.decode()}\n{err.decode()}") from None
    return Done(["srun", *words], process.returncode, out, err)


def expect(size: int, nodes: list[tuple[int, ...]]) -> str:
    return f"ring True of {size}, sum {size * (size + 1) // 2}, nodes {nodes}\n"


def test_the_kinds_of_mpi_are_listed(cluster: LiveCluster) -> None:
    done = cluster.run("srun", "--mpi=list")
    assert done.status == 0
    assert done.out + done.err == "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"


@pytest.mark.parametrize(("group", "mpi"), LIBRARIES)
def test_one_node(cluster: LiveCluster, group: str, mpi: str) -> None:
    done = srun(cluster, group, f"--mpi={mpi}", "-N1", "-n3", "python", str(PROGRAMS / "ring.py"))
    assert done.ok().out == expect(3, [(0, 1, 2)])


@pytest.mark.parametrize(("group", "mpi"), LIBRARIES)
def test_several_nodes(cluster: LiveCluster, group: str, mpi: str) -> None:
    done = srun(cluster, group, f"--mpi={mpi}", "-N3", "--ntasks-per-node=2", "python", str(PROGRAMS / "ring.py"))
    assert done.ok().out == expect(6, [(0, 1), (2, 3), (4, 5)])


@pytest.mark.parametrize(("group", "mpi"), LIBRARIES)
def test_libraries_know_the_layout(cluster: LiveCluster, group: str, mpi: str) -> None:
    done = srun(
        cluster, group, f"--mpi={mpi}", "-N2", "--ntasks-per-node=3", "-mcyclic", "python", str(PROGRAMS / "ring.py")
    )
    assert done.ok().out == expect(6, [(0, 2, 4), (1, 3, 5)])


@pytest.mark.parametrize("ranks", [12, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("group", "mpi"), LIBRARIES)
def test_ranks_over_4_nodes(cluster: LiveCluster, group: str, mpi: str, ranks: int) -> None:
    here = ranks // 4
    done = srun(cluster, group, f"--mpi={mpi}", "-N4", f"--ntasks-per-node={here}", "python", str(PROGRAMS / "ring.py"))
    assert done.ok().out == expect(ranks, [tuple(range(at, at + here)) for at in range(0, ranks, here)])


@pytest.mark.parametrize(("group", "mpi"), LIBRARIES)
def test_a_shell_around_the_program(cluster: LiveCluster, group: str, mpi: str) -> None:
    script = f"exec python {PROGRAMS / 'ring.py'}"
    done = srun(cluster, group, f"--mpi={mpi}", "-N2", "-n2", "sh", "-c", script)
    assert done.ok().out == expect(2, [(0,), (1,)])


@pytest.mark.parametrize(("group", "mpi"), LIBRARIES)
def test_an_abort_ends_the_whole_step(cluster: LiveCluster, group: str, mpi: str) -> None:
    done = srun(cluster, group, f"--mpi={mpi}", "-N2", "-n4", "python", str(PROGRAMS / "abort.py"))
    assert done.status != 0
    assert "abort requested with code 42" in done.err


def test_pmix_without_its_library_says_what_is_missing(cluster: LiveCluster) -> None:
    done = cluster.run("srun", "--mpi=pmix", "-n2", "true", env={"PENSTOCK_PMIX_LIBRARY": "/nowhere/libpmix.so.2"})
    assert done.status != 0
    assert "--mpi=pmix: /nowhere/libpmix.so.2: " in done.err and "Traceback" not in done.err


def test_without_mpi_a_task_is_alone(cluster: LiveCluster) -> None:
    done = cluster.run("srun", "--mpi=none", "-n2", "env")
    assert "PMI" not in done.ok().out


# -- the libraries' own launchers, which start their helpers with our srun


@pytest.mark.parametrize("group", ["mpich", "openmpi"])
def test_a_launcher_within_a_job(cluster: LiveCluster, group: str) -> None:
    programs = programs_of(group)
    path = f"{programs}:{cluster.work}/bin:{cluster.environment()['PATH']}"
    run = "mpirun" if group == "openmpi" else "mpiexec"
    more = "--allow-run-as-root " if group == "openmpi" else ""
    script = f"{run} {more}{programs}/python {PROGRAMS / 'ring.py'}"
    job = cluster.sbatch(
        "-N2", "-n4", "--ntasks-per-node=2", "-o", "launcher.%j", "--wrap", script, PATH=path, **LIBRARY_SETTINGS
    )
    (ended,) = cluster.wait_ends(job, limit_s=END_S)
    output = (cluster.work / f"launcher.{job}").read_text()
    assert ended.state == "COMPLETED", output
    assert expect(4, [(0, 1), (2, 3)]).split(", nodes")[0] in output
