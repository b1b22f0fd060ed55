"""Reloads: what is refused and why, what is listed as a change, and the command that checks a file."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cli.subcommands.configcheck import EX_CONFIG, main
from penstock.config import changes, reload_problems
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres

Write = Callable[..., str]


def node(name: str, **fields: object) -> NodeConfig:
    values: dict[str, object] = {"hostname": name, "addr": name, "cpus": 8, "real_memory_mb": 1000} | fields
    return NodeConfig(name=name, **values)  # type: ignore[arg-type]  # keywords of many types


GPU4 = (Gres("gpu", "a100", 4),)
OLD = Config(
    nodes=(node("n1", gres=GPU4), node("n2", gres=GPU4), node("n3")),
    partitions=(PartitionConfig("main", ("n1", "n2", "n3"), is_default=True),),
)


def with_node(changed: NodeConfig) -> Config:
    return replace(OLD, nodes=tuple(changed if old.name == changed.name else old for old in OLD.nodes))


def test_nothing_changed_nothing_refused() -> None:
    assert reload_problems(OLD, OLD, {"n1", "n2", "n3"}, {"n1": GPU4}) == []
    assert changes(OLD, OLD) == []


def test_a_node_with_jobs_may_not_be_removed() -> None:
    new = replace(OLD, nodes=OLD.nodes[:1])
    assert reload_problems(OLD, new, {"n1", "n2", "n3"}, {}) == [
        "nodes with running jobs would be removed: n[2-3]; drain them first"
    ]
    assert reload_problems(OLD, new, {"n1"}, {"n1": GPU4}) == []


@pytest.mark.parametrize(
    ("gres", "used", "expected"),
    [
        ((Gres("gpu", "a100", 2),), GPU4, ["node n1: jobs use 4 gpu, the new configuration has 2; drain it first"]),
        ((), (Gres("gpu", "", 1),), ["node n1: jobs use 1 gpu, the new configuration has 0; drain it first"]),
        (
            (Gres("gpu", "h100", 4),),
            (Gres("gpu", "a100", 3),),
            ["node n1: jobs use 3 gpu:a100, the new configuration has 0; drain it first"],
        ),
        ((Gres("gpu", "a100", 2),), (Gres("gpu", "a100", 2),), []),
        ((Gres("gpu", "", 4),), GPU4, []),
    ],
)
def test_fewer_gpus_than_allocated(gres: tuple[Gres, ...], used: tuple[Gres, ...], expected: list[str]) -> None:
    assert reload_problems(OLD, with_node(node("n1", gres=gres)), {"n1"}, {"n1": used}) == expected


def test_cpus_and_memory_of_a_node_with_jobs() -> None:
    new = with_node(node("n3", cpus=4, real_memory_mb=500))
    assert reload_problems(OLD, new, {"n1"}, {}) == []
    assert reload_problems(OLD, new, {"n3"}, {}) == [
        "node n3 has running jobs: CPUs cannot go from 8 to 4; drain it first",
        "node n3 has running jobs: RealMemory cannot go from 1000 to 500; drain it first",
    ]


def test_what_needs_a_restart() -> None:
    new = replace(OLD, state_save_location="/elsewhere", kill_wait_s=5)
    assert reload_problems(OLD, new, set(), {}) == [
        "StateSaveLocation cannot change while the controller runs; restart it instead"
    ]


def test_changes_in_words() -> None:
    new = replace(
        OLD,
        kill_wait_s=60,
        penstock_database_url="postgresql://u:secret@h/d",
        nodes=(node("n1", weight=5), node("n2", weight=5), node("n4")),
        partitions=(PartitionConfig("main", ("n1", "n2"), max_time_s=3600), PartitionConfig("new", ())),
    )
    assert changes(OLD, new) == [
        "PenstockDatabaseUrl: none -> postgresql://u:***@h/d",
        "KillWait: 30 -> 60",
        "nodes added: n4",
        "nodes removed: n3",
        "node n[1-2]: Gres: gpu:a100:4 -> none",
        "node n[1-2]: Weight: 1 -> 5",
        "partition new added",
        "partition main: Nodes: n[1-3] -> n[1-2]",
        "partition main: Default: YES -> NO",
        "partition main: MaxTime: UNLIMITED -> 01:00:00",
    ]


def test_check_of_a_file_that_is_right(write: Write, whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(whole + "VSizeFactor=5\n")
    assert main([path]) == 0
    warning = (
        "slurm.conf:6: VSizeFactor is known to Slurm and not used by Penstock: real memory is limited by control groups"
    )
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"warning: {warning} (ConstrainRAMSpace)",
        "slurm.conf: usable, 1 warning",
    ]
    assert main(["--explain", path]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  in Slurm: limits virtual memory"
    assert main(["-q", path]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_of_a_file_that_is_wrong(write: Write, whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(whole + "KillWait=x\nFoo\n")]) == EX_CONFIG == 78
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.splitlines() == [
        "slurm.conf:6: Invalid KillWait: 'x' is not a whole number (allowed: 0 to 65533)",
        "slurm.conf:7: expected Key=Value, found 'Foo'",
        "slurm.conf: not usable, 2 problems",
    ]


def test_check_finds_its_file(
    write: Write, whole: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_CONF", write(whole))
    assert main([]) == 0
    assert "slurm.conf: usable" in capsys.readouterr().out


def test_check_used_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "b"]) == 2
    assert main(["--nonsense"]) == 2
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: penstock config check")
