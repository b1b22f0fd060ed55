"""CoreSpecCount, CpuSpecList and MemSpecLimit: which CPUs and how much memory are the system's; what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.diff import changes, reload_problems
from penstock.config.load import load
from penstock.config.problem import ConfigError
from penstock.config.write import render
from penstock.values.config import NodeConfig
from penstock.values.cpusets import format_cpus, last_cores, parse_cpus, whole_cores

Write = Callable[..., str]
THREADS = "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
CORES = "CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"


def node_of(write: Write, whole: str, line: str, more: str = "") -> NodeConfig:
    return load(write(f"{whole}NodeName=x {line}\n{more}")).config.nodes[-1]


@pytest.mark.parametrize(
    ("line", "cpus", "cores"),
    [
        (f"{THREADS} CoreSpecCount=1", "14-15", 1),
        (f"{THREADS} CoreSpecCount=3", "6-7,12-15", 3),  # the sockets by turns, from the last core
        (f"{CORES} CoreSpecCount=3", "3,6-7", 3),
        (f"{THREADS} CpuSpecList=0,5", "0-1,4-5", 2),  # whole cores
        (f"{CORES} CpuSpecList=0-2", "0-2", 3),
        (f"{THREADS} CoreSpecCount=0", "", 0),
        ("CPUs=4 CoreSpecCount=1", "3", 1),
    ],
)
def test_which_cpus_are_the_systems(write: Write, whole: str, line: str, cpus: str, cores: int) -> None:
    node = node_of(write, whole, line)
    assert (format_cpus(node.specialized_cpus), node.core_spec_count()) == (cpus, cores)
    assert node.cpus_for_jobs() == node.cpus - cores * node.cpus_per_core()


def test_the_first_cores(write: Write, whole: str) -> None:
    node = node_of(write, whole, f"{THREADS} CoreSpecCount=3", "SchedulerParameters=spec_cores_first\n")
    assert format_cpus(node.specialized_cpus) == "0-3,8-9"


def test_a_line_replaces_the_other_key_of_default(write: Write, whole: str) -> None:
    lines = f"NodeName=DEFAULT {THREADS} CoreSpecCount=2 RealMemory=1000 MemSpecLimit=200\nNodeName=x CpuSpecList=0\n"
    node = load(write(whole + lines)).config.nodes[-1]
    assert (format_cpus(node.specialized_cpus), node.memory_for_jobs_mb()) == ("0-1", 800)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"{THREADS} CoreSpecCount=8", "slurm.conf:6: CoreSpecCount leaves no core of 8 for jobs"),
        (f"{THREADS} CoreSpecCount=9", "slurm.conf:6: CoreSpecCount leaves no core of 8 for jobs"),
        (f"{THREADS} CpuSpecList=0-15", "slurm.conf:6: CpuSpecList leaves no core of 8 for jobs"),
        (f"{THREADS} CpuSpecList=16", "slurm.conf:6: CpuSpecList: CPU 16 does not exist: they are 0 to 15"),
        (f"{THREADS} CpuSpecList=a", "slurm.conf:6: CpuSpecList: "),
        (f"{THREADS} CpuSpecList=0 CoreSpecCount=1", "slurm.conf:6: CoreSpecCount and CpuSpecList exclude each other"),
    ],
)
def test_what_leaves_jobs_nothing_is_an_error(write: Write, whole: str, line: str, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        node_of(write, whole, line)
    assert text in str(error.value)


def test_memory_that_leaves_jobs_nothing_is_not_kept(write: Write, whole: str) -> None:
    loaded = load(write(f"{whole}NodeName=x RealMemory=100 MemSpecLimit=100\n"))
    assert loaded.config.nodes[-1].memory_for_jobs_mb() == 100
    assert loaded.warnings == (
        "slurm.conf:6: MemSpecLimit=100 leaves nothing of RealMemory=100 for jobs; it is not used",
    )


def test_what_render_writes_load_reads(write: Write, whole: str, tmp_path: Path) -> None:
    config = load(write(f"{whole}NodeName=x {THREADS} CoreSpecCount=3 RealMemory=1000 MemSpecLimit=9\n")).config
    again = tmp_path / "again.conf"
    again.write_text(render(config))
    assert load(str(again)).config.nodes == config.nodes


def test_nodes_with_jobs_do_not_shrink(write: Write, whole: str) -> None:
    old = load(write(f"{whole}NodeName=x {THREADS} RealMemory=1000\n")).config
    new = load(write(f"{whole}NodeName=x {THREADS} RealMemory=1000 CoreSpecCount=1 MemSpecLimit=1\n")).config
    assert reload_problems(old, new, {"x"}, {}) == [
        "node x has running jobs: the CPUs for jobs cannot go from 16 to 14; drain it first",
        "node x has running jobs: the memory for jobs cannot go from 1000 to 999; drain it first",
    ]
    assert reload_problems(old, new, set(), {}) == []
    assert changes(old, new) == ["node x: CpuSpecList: none -> 14-15", "node x: MemSpecLimit: 0 -> 1"]


@given(st.sets(st.integers(0, 40)), st.integers(1, 4))
def test_masks_and_their_text(numbers: set[int], per_core: int) -> None:
    mask = sum(1 << number for number in numbers)
    assert parse_cpus(format_cpus(mask), 41) == mask
    cores = {number // per_core for number in numbers}
    assert whole_cores(mask, per_core) == sum(((1 << per_core) - 1) << core * per_core for core in cores)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 2), st.integers(0, 30), st.booleans())
def test_so_many_cores(sockets: int, cores: int, threads: int, count: int, first: bool) -> None:
    mask = last_cores(count, sockets, cores, threads, first)
    assert mask.bit_count() == min(count, sockets * cores) * threads
    assert whole_cores(mask, threads) == mask


def test_lists_have_no_steps() -> None:
    assert format_cpus(0b1010101) == "0,2,4,6"
