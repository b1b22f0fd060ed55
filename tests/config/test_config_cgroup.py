"""cgroup.conf: what it may say, what it is warned about, and how it reaches a node and `show config`."""

from collections.abc import Callable

import pytest

from cli.subcommands.configcheck import main
from ctld.agents.settings import node_settings
from penstock.config import ConfigError, load
from penstock.config.diff import changes
from penstock.values.config import CgroupConfig, Config

Write = Callable[..., str]

TYPICAL = """\
###
CgroupPlugin=autodetect
ConstrainCores=yes
ConstrainDevices=yes ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedRAMSpace=98.5%
AllowedSwapSpace=10
MinRAMSpace=64
MaxRAMPercent=95
SignalChildrenProcesses=yes
PenstockMaxPidsPerJob=4000
"""


def test_without_the_file_nothing_is_constrained(write: Write, whole: str) -> None:
    config = load(write(whole)).config
    assert config.cgroup == CgroupConfig()
    settings = node_settings(config).cgroup
    assert (settings.plugin, settings.pids_max, settings.min_ram_mb) == ("autodetect", 0, 30)
    assert not (settings.constrain_cores or settings.constrain_ram or settings.constrain_devices)


def test_a_typical_file(write: Write, whole: str) -> None:
    loaded = load(write(whole, cgroup_conf=TYPICAL))
    assert loaded.warnings == ()
    assert loaded.files == ("slurm.conf", "cgroup.conf")
    assert loaded.config.cgroup == CgroupConfig(
        "autodetect", True, True, True, True, 98.5, 10.0, 95.0, 100.0, 64, True, 4000
    )
    shown = dict(loaded.config.shown)
    assert (shown["ConstrainCores"], shown["AllowedRAMSpace"], shown["MinRAMSpace"]) == ("yes", "98.5%", "64MB")
    settings = node_settings(loaded.config).cgroup
    assert (settings.constrain_swap, settings.allowed_swap_percent, settings.pids_max) == (True, 10.0, 4000)


def test_a_reload_tells_what_changes(write: Write, whole: str) -> None:
    was = load(write(whole)).config
    now = load(write(whole, cgroup_conf="ConstrainCores=yes\n")).config
    assert changes(was, now) == ["ConstrainCores: no -> yes"]


def test_swap_is_limited_only_with_memory(write: Write, whole: str) -> None:
    loaded = load(write(whole, cgroup_conf="ConstrainSwapSpace=yes\n"))
    assert loaded.warnings == ("cgroup.conf:1: ConstrainSwapSpace needs ConstrainRAMSpace=yes; swap is not limited",)
    assert not node_settings(loaded.config).cgroup.constrain_swap


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ConstrainCore=yes\n", "cgroup.conf:1: unknown parameter ConstrainCore (did you mean ConstrainCores?)"),
        ("\nConstrainCores=maybe\n", "cgroup.conf:2: Invalid ConstrainCores: expected YES or NO, not 'maybe'"),
        (
            "AllowedRAMSpace=most\n",
            "cgroup.conf:1: Invalid AllowedRAMSpace: expected a percentage like 100 or 98.5, not 'most'",
        ),
        (
            "CgroupPlugin=cgroup/v3\n",
            "cgroup.conf:1: Invalid CgroupPlugin: expected autodetect, cgroup/v1, cgroup/v2, disabled, not 'cgroup/v3'",
        ),
    ],
)
def test_mistakes(write: Write, whole: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(whole, cgroup_conf=text))
    assert [str(one) for one in error.value.problems] == [problem]


def test_what_is_not_used_is_warned_about(write: Write, whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "CgroupAutomount=yes\nCgroupMountpoint=/sys/fs/cgroup\nMemorySwappiness=10\n"
    assert main([write(whole, cgroup_conf=text)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "warning: cgroup.conf:3: MemorySwappiness is known to Slurm and not used by Penstock: the system's setting applies\n"
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("15", 15), ("task=5", 5), ("energy=10,task=7", 7), ("energy=10", 30)]
)
def test_the_interval_of_samples(write: Write, whole: str, text: str, seconds: int) -> None:
    config = load(write(whole + f"JobAcctGatherType=jobacct_gather/cgroup\nJobAcctGatherFrequency={text}\n")).config
    settings = node_settings(config)
    assert (settings.acct_gather_type, settings.acct_gather_frequency_s) == ("jobacct_gather/cgroup", seconds)


def test_the_defaults_of_what_nodes_are_told() -> None:
    settings = node_settings(Config())
    assert (settings.task_plugin, settings.acct_gather_type) == ("task/affinity", "jobacct_gather/none")
