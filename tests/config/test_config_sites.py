"""Whole files of different sites: they load, warn about exactly what is listed, and mean what their authors meant."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.subcommands.configcheck import main
from penstock.config import load, render
from penstock.values.config import CgroupConfig, Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from penstock.values.topology import Topology

SITES = Path(__file__).parent / "sites"
NAMES = sorted(path.name for path in SITES.iterdir() if path.is_dir())


@pytest.fixture(autouse=True)
def every_user_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """SlurmUser is the site's, not this machine's."""
    monkeypatch.setattr(sys.modules["penstock.config.load"], "find_uid", lambda name: 1)


def site(name: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(SITES / name)
    return load("slurm.conf").config


def node(config: Config, name: str) -> NodeConfig:
    return next(node for node in config.nodes if node.name == name)


def partition(config: Config, name: str) -> PartitionConfig:
    return next(partition for partition in config.partitions if partition.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_the_check_prints_exactly_this(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(SITES / name)
    assert main(["slurm.conf"]) == 0
    out = capsys.readouterr()
    if os.environ.get("PENSTOCK_BLESS"):
        Path("expected.txt").write_text(out.out)
    assert out.out == Path("expected.txt").read_text()
    assert out.err == ""


@pytest.mark.parametrize("name", NAMES)
def test_rendered_and_loaded_again_it_is_equal(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = site(name, monkeypatch)
    if not config.nodes:
        pytest.skip("MaxNodeCount is not kept, and without it a file without nodes is a mistake")
    copy = tmp_path / "slurm.conf"
    copy.write_text(render(config))
    again = load(str(copy))
    # what gres.conf, cgroup.conf and topology.conf say of devices, limits and switches stays in these files
    plain = replace(
        config,
        topology=Topology(),
        topology_plugin="topology/flat",
        cgroup=CgroupConfig(),
        nodes=tuple(
            replace(n, devices=(), device_files=(), gpu_detect="", gpu_env=(), gpu_env_uuid=False) for n in config.nodes
        ),
    )
    assert again.config == plain
    assert [w for w in again.warnings if "not used by Penstock" not in w and "NodeName" not in w] == []


def test_gpu_center_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = site("gpu-center", monkeypatch)
    assert [node.name for node in config.nodes][:2] == ["a001", "a002"]
    a = node(config, "a003")
    assert (a.cpus, a.sockets, a.cores_per_socket, a.threads_per_core) == (128, 2, 32, 2)
    assert a.gres == (Gres("gpu", "a100", 4), Gres("nvme", "", 1))  # the type comes from gres.conf
    assert a.features == ("a100", "ib")
    assert (a.addr, a.hostname, a.tmp_disk_mb, a.weight, a.state) == ("a003", "a003", 800000, 10, "UNKNOWN")
    h = node(config, "h3")
    assert (h.cpus, h.addr, h.gres) == (192, "10.1.4.3", (Gres("gpu", "h100", 8),))
    assert [(n.name, n.reason) for n in config.nodes if n.state == "DRAIN"] == [
        ("a015", "fans replaced on Monday"),
        ("a016", "fans replaced on Monday"),
    ]


def test_gpu_center_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    config = site("gpu-center", monkeypatch)
    gpu, hopper, debug, long = (partition(config, name) for name in ("gpu", "hopper", "debug", "long"))
    assert gpu.is_default and gpu.nodes[0] == "h1" and len(gpu.nodes) == 20
    assert (gpu.max_time_s, gpu.default_time_s, gpu.priority_tier) == (2 * 86400, 3600, 10)
    assert hopper.nodes == ("h1", "h2", "h3", "h4")
    assert (hopper.allow_accounts, hopper.max_nodes, hopper.is_default) == (("physics", "chem"), 8, False)
    assert (debug.max_time_s, debug.default_time_s) == (1800, 600)
    assert (long.max_time_s, long.default_time_s) == (7 * 86400, 3600)  # the second DEFAULT line adds to the first
    assert (long.over_subscribe, long.allow_groups) == ("EXCLUSIVE", ("longusers",))


def test_gpu_center_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    config = site("gpu-center", monkeypatch)
    assert (config.controller_host, config.controller_addr) == ("atlas-head1", "10.1.0.1")
    assert ("bf_max_job_test", "2000") in config.scheduler_parameters
    assert ("bf_continue", "") in config.scheduler_parameters
    assert (config.sched_interval_s, config.max_script_bytes) == (30, 8388608)
    assert config.select_type_parameters == ("CR_CORE_MEMORY", "CR_PACK_NODES")
    assert (config.over_time_limit_s, config.enforce_part_limits, config.kill_wait_s) == (300, "ALL", 60)


def test_campus(monkeypatch: pytest.MonkeyPatch) -> None:
    config = site("campus", monkeypatch)
    assert (config.cluster_name, config.controller_host, config.controller_addr) == ("campus", "master", "192.168.7.1")
    assert (config.slurmctld_port, config.slurmd_port) == (7002, 7010)
    assert config.propagate_resource_limits_except == "MEMLOCK,STACK"
    thin, fat, login = node(config, "node007"), node(config, "fat2"), node(config, "login")
    assert (thin.cpus, thin.sockets, thin.cores_per_socket, thin.threads_per_core, thin.port) == (24, 2, 12, 2, 7010)
    assert (fat.cpus, fat.boards, fat.sockets, fat.cores_per_socket, fat.threads_per_core) == (40, 2, 4, 10, 1)
    assert (login.hostname, login.addr, login.port) == ("login.campus.example", "192.168.7.9", 7999)
    assert (login.state, login.reason) == ("DOWN", "not for jobs #1")
    batch, big, admin = (partition(config, name) for name in ("batch", "fat", "admin"))
    assert (batch.priority_tier, batch.priority_job_factor, batch.over_subscribe) == (20, 20, "YES:4")
    assert (batch.disable_root_jobs, big.disable_root_jobs) == (True, False)
    assert (big.min_nodes, big.max_nodes, big.max_cpus_per_node, big.deny_accounts) == (1, 2, 36, ("guests",))
    assert (admin.root_only, admin.hidden, admin.state, admin.exclusive_user) == (True, True, "DRAIN", True)


def test_many_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    config = site("many-daemons", monkeypatch)
    found = [(n.name, n.hostname, n.addr, n.port) for n in config.nodes]
    assert found[:2] == [("n1", "localhost", "127.0.0.1", 17001), ("n2", "localhost", "127.0.0.1", 17002)]
    assert found[4] == ("spare1", "spare1", "spare1", 6818)
    assert partition(config, "two").nodes == ("n4", "n1")
    assert partition(config, "two").max_mem_per_node_mb == 512
    assert not any(p.is_default for p in config.partitions)
