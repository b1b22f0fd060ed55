"""A configuration that would keep for the system what jobs have: a reload is refused, a start keeps it until they end."""

from dataclasses import replace

from ctld.core.records.events import JobSubmission, LoadConfig
from penstock.values.config import Config
from tests.core.world import World, make_config


def kept_for_system(config: Config, cpus: int, mem_mb: int) -> Config:
    nodes = tuple(replace(node, specialized_cpus=cpus, mem_spec_limit_mb=mem_mb) for node in config.nodes)
    return replace(config, nodes=nodes)


def with_job(ntasks: int, mem_mb: int) -> World:
    made = World(make_config(nodes=1, cpus=4, mem_mb=4000))
    made.register("n1")
    made.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=60, ntasks=ntasks, mem_per_node_mb=mem_mb))
    return made


def reload(made: World, cpus: int, mem_mb: int) -> str:
    return " ".join(made.do(LoadConfig(kept_for_system(made.config, cpus, mem_mb), made.reply_to())))


def test_cpus_and_memory_that_jobs_have_are_not_taken() -> None:
    made = with_job(2, 2000)
    assert "node n1: 2 CPUs are allocated, the file has 1" in reload(made, 0b1110, 0)
    assert "node n1: CPUs 0-1 are allocated, the file keeps them for the system" in reload(made, 0b11, 0)
    assert "node n1: 2000 MB are allocated, the file has 1999" in reload(made, 0, 2001)
    assert made.core.state.node_list[0].cpus == 4
    reload(made, 0b1100, 2000)
    node = made.core.state.node_list[0]
    assert (node.cpus, node.real_memory_mb, node.cpus_used) == (2, 2000, 0b11)


def test_what_is_free_is_taken_and_returned() -> None:
    made = with_job(1, 100)
    reload(made, 0b1000, 500)
    assert (made.core.state.node_list[0].cpus, made.core.state.node_list[0].real_memory_mb) == (3, 3500)
    made.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=60, exclusive=True, mem_per_node_mb=0))
    made.exited(1)
    assert made.core.state.jobs[2].alloc[0].cpus == 3 and made.core.state.node_list[0].cpus_used == 0b111
    reload(made, 0, 0)
    assert made.core.state.node_list[0].cpus == 4
