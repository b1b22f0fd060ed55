"""Sizes, ports and slurm.conf of a cluster of one's own."""

import getpass
import secrets
import socket
from pathlib import Path

import pytest

from cli.base.run import CommandError
from cli.subcommands.localconf import (
    LocalClusterOptions,
    LocalNode,
    Machine,
    conf_text,
    free_ports,
    home_folder,
    other_than,
    plan_nodes,
    prepare,
)
from penstock.config import load

MACHINE = Machine(cpus=8, memory_mb=10_000, gpus=2)


@pytest.mark.parametrize(
    ("wish", "nodes"),
    [
        (LocalClusterOptions(), [LocalNode("n1", 8, 9000, 2, False)]),
        (LocalClusterOptions(nodes=2), [LocalNode("n1", 4, 4500, 0, True), LocalNode("n2", 4, 4500, 0, True)]),
        (LocalClusterOptions(cpus_per_node=64), [LocalNode("n1", 64, 9000, 2, True)]),
        (LocalClusterOptions(gpus_per_node=(0, "")), [LocalNode("n1", 8, 9000, 0, True)]),
        (
            LocalClusterOptions(nodes=3, gpus_per_node=(8, "h200")),
            [LocalNode(f"n{i}", 2, 3000, 8, True, "h200") for i in (1, 2, 3)],
        ),
    ],
)
def test_plan(wish: LocalClusterOptions, nodes: list[LocalNode]) -> None:
    assert plan_nodes(wish, MACHINE) == nodes


def test_more_nodes_than_the_machine_has_cpus() -> None:
    assert {(n.cpus, n.memory_mb) for n in plan_nodes(LocalClusterOptions(nodes=16), MACHINE)} == {(1, 562)}


def test_other_sizes_are_named() -> None:
    nodes = plan_nodes(LocalClusterOptions(nodes=2), MACHINE)
    assert other_than(LocalClusterOptions(), nodes) == ""
    assert other_than(LocalClusterOptions(nodes=2, cpus_per_node=4), nodes) == ""
    assert other_than(LocalClusterOptions(nodes=3), nodes) == "--nodes 3: this cluster has 2"
    assert other_than(LocalClusterOptions(gpus_per_node=(1, "")), nodes) == "--gpus-per-node 1: this cluster has 0"
    assert other_than(LocalClusterOptions(name="west"), nodes, "west") == ""
    assert other_than(LocalClusterOptions(name="west"), nodes) == "--name west: this cluster has local"
    typed = plan_nodes(LocalClusterOptions(gpus_per_node=(8, "h200")), MACHINE)
    assert other_than(LocalClusterOptions(gpus_per_node=(8, "h200")), typed) == ""
    assert other_than(LocalClusterOptions(gpus_per_node=(8, "")), typed) == "--gpus-per-node 8: this cluster has 8:h200"


def test_slurm_conf_says_what_was_planned(tmp_path: Path) -> None:
    home = tmp_path / "with space"
    lines = conf_text(
        home, "ann", (20001, 20002, 20003), plan_nodes(LocalClusterOptions(nodes=4, gpus_per_node=(2, "")), MACHINE)
    ).splitlines()
    assert "ClusterName=local" in lines
    assert "NodeName=n[1-4] NodeAddr=127.0.0.1 CPUs=2 RealMemory=2250 Gres=gpu:2 State=UNKNOWN" in lines
    assert "PartitionName=debug Nodes=n[1-4] Default=YES MaxTime=UNLIMITED State=UP" in lines
    assert f'StateSaveLocation="{home}/ctld"' in lines
    assert "DefMemPerCPU=1125" in lines
    assert {"SlurmctldPort=20001", "PenstockNodePort=20002", "SlurmUser=ann", "ReturnToService=2"} <= set(lines)


@pytest.mark.parametrize(
    "wish",
    [
        LocalClusterOptions(),
        LocalClusterOptions(nodes=4),
        LocalClusterOptions(1, 3, (0, "")),
        LocalClusterOptions(64, 128, (8, "h200")),
    ],
)
def test_slurm_conf_can_be_read_without_a_warning(tmp_path: Path, wish: LocalClusterOptions) -> None:
    home = tmp_path / "with space"
    home.mkdir()
    nodes = plan_nodes(wish, MACHINE)
    (home / "slurm.conf").write_text(conf_text(home, getpass.getuser(), (20001, 20002, 20003), nodes))
    loaded = load(str(home / "slurm.conf"))
    assert [str(w) for w in loaded.warnings] == []
    config = loaded.config
    assert (config.cluster_name, config.slurmctld_port, config.penstock_node_port) == ("local", 20001, 20002)
    assert (config.controller_addr, config.state_save_location) == ("127.0.0.1", f"{home}/ctld")
    assert config.memory_is_consumable()
    got = [(n.name, n.cpus, n.real_memory_mb, sum(g.count for g in n.gres)) for n in config.nodes]
    assert got == [(n.name, n.cpus, n.memory_mb, n.gpus) for n in nodes]
    assert config.def_mem_per_cpu_mb * nodes[0].cpus <= nodes[0].memory_mb
    (partition,) = config.partitions
    assert (partition.name, partition.is_default, partition.max_time_s, len(partition.nodes)) == (
        "debug",
        True,
        -1,
        len(nodes),
    )


def test_ports_are_free_and_different(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        choices = iter([busy, 20001, 20001, 20002])
        monkeypatch.setattr(secrets, "choice", lambda ports: next(choices))
        monkeypatch.setattr(socket, "socket", pretend_free({busy}))
        assert free_ports(2) == [20001, 20002]


def pretend_free(busy: set[int]) -> type:
    class Probe:
        def __enter__(self) -> "Probe":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def setsockopt(self, *_: int) -> None:
            pass

        def bind(self, address: tuple[str, int]) -> None:
            if address[1] in busy:
                raise OSError(98, "Address already in use")

    return Probe


def test_home_is_refused_when_it_cannot_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", "/" + "x" * 100)
    with pytest.raises(CommandError, match="longer than"):
        home_folder()
    monkeypatch.setenv("PENSTOCK_HOME", '/a"b')
    with pytest.raises(CommandError, match="cannot be written"):
        home_folder()
    monkeypatch.delenv("PENSTOCK_HOME")
    monkeypatch.setenv("HOME", "/u")
    assert home_folder() == Path("/u/.penstock")


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(CommandError, match="holds thesis"):
        prepare(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_files_of_other_clusters_may_lie_there_before(tmp_path: Path) -> None:
    """As after --purge, which leaves them."""
    (tmp_path / "clusters").mkdir()
    prepare(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_cluster_s_own_folder_may_hold_more(tmp_path: Path) -> None:
    """gres.conf and cgroup.conf lie beside slurm.conf, and `scontrol write config` writes there."""
    for name in ("cluster.json", "slurm.conf", "cgroup.conf", "slurm.conf.20261122014456"):
        (tmp_path / name).touch()
    prepare(tmp_path)
    assert (tmp_path / "cgroup.conf").exists()


def test_the_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    prepare(home)
    assert home.stat().st_mode & 0o777 == 0o700
    home.chmod(0o755)
    prepare(home)
    assert home.stat().st_mode & 0o777 == 0o700
