"""GPU keys of slurm.conf and the file of XIDs: what they may say, what is wrong, and how it reaches a node."""

from collections.abc import Callable

import pytest

from cli.subcommands.configcheck import main
from ctld.agents.settings import node_settings
from penstock.config import ConfigError, load
from penstock.values.config import Config

Write = Callable[..., str]

ALL = """\
PenstockGpuSettings=read-only PenstockGpuPollSeconds=5
PenstockXidFile=xids.toml
PenstockGpuLostDrainsNode=YES
PenstockGpuCheckProgram=/opt/check PenstockGpuCheckInterval=24
PenstockGpuResetProgram=/opt/reset
PenstockGpuIdleWarn=600 PenstockGpuIdleLimit=1200 PenstockGpuIdleAction=return PenstockGpuIdlePercent=3
PenstockGpuJobMapDir=/run/map
PenstockGpuAccountingMode=YES
PenstockMpsProgram=/usr/bin/mps
"""
XIDS = """\
[[xid]]
number = 109
class = "reset"

[[xid]]
number = 13
class = "ignore"
"""


def test_nothing_said(write: Write, whole: str) -> None:
    settings = node_settings(load(write(whole)).config).gpu
    assert (settings.read_only, settings.poll_s, settings.idle_warn_s) == (False, 10, 0)
    assert (settings.idle_percent, settings.check_program, settings.mps_program) == (1, "", "nvidia-cuda-mps-control")
    assert settings == node_settings(Config()).gpu


def test_all_keys_reach_the_node(write: Write, whole: str) -> None:
    loaded = load(write(whole + ALL, xids_toml=XIDS))
    config, settings = loaded.config, node_settings(loaded.config).gpu
    assert loaded.warnings == () and loaded.files == ("slurm.conf", "xids.toml")
    assert [(rule.xid, rule.class_name) for rule in settings.xids] == [(109, "reset"), (13, "ignore")]
    assert (settings.read_only, settings.lost_drains_node, settings.accounting_mode) == (True, True, True)
    assert (settings.poll_s, settings.idle_warn_s, settings.idle_percent) == (5, 600, 3)
    programs = (settings.check_program, settings.reset_program, settings.mps_program, settings.job_map_dir)
    assert programs == ("/opt/check", "/opt/reset", "/usr/bin/mps", "/run/map")
    assert (config.gpu_check_interval_h, config.gpu_idle_limit_s, config.gpu_idle_action) == (24, 1200, "return")
    assert dict(config.shown)["PenstockGpuIdleLimit"] == "1200 sec"


def test_what_does_nothing_is_warned_about(write: Write, whole: str) -> None:
    lines = "PenstockGpuCheckInterval=3\nPenstockGpuIdleLimit=5\nPenstockGpuIdleAction=cancel\n"
    assert load(write(whole + lines)).warnings == (
        "slurm.conf:6: PenstockGpuCheckInterval does nothing without PenstockGpuCheckProgram",
        "slurm.conf:7: PenstockGpuIdleLimit does nothing without PenstockGpuIdleWarn",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[xid]]\nnumber = 13\nclass = "harmless"', "xid 13: class: expected one of application, contained, "),
        ('[[xid]]\nnumber = "x"\nclass = "note"', "xid no. 1: number: expected 0 to 65535, not 'x'"),
        ('[[xid]]\nnumber = true\nclass = "note"', "xid no. 1: number: expected 0 to 65535, not True"),
        ('[[xid]]\nnumber = 1\nclas = "note"', "xid no. 1: unknown key clas; known: number, class"),
        (XIDS + XIDS, "xid 109 is given twice"),
        ("[xid]\nnumber = 1", "xid: write [[xid]] above number= and class="),
        ("xid = [1]", "xid: write [[xid]] above number= and class="),
        ("[[xids]]\nnumber = 1", "unknown key xids; write [[xid]] tables with number= and class="),
        ("[[xid", "it is no TOML: "),
    ],
)
def test_mistakes_in_the_file_of_xids(
    text: str, words: str, write: Write, whole: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(whole + "PenstockXidFile=xids.toml\n", xids_toml=text)
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value.problems[0]).startswith(f"xids.toml: {words}")
    assert main([path]) == 78
    assert "xids.toml: " in capsys.readouterr().err


def test_a_file_that_is_not_there(write: Write, whole: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(whole + "PenstockXidFile=none.toml\n"))
    assert str(error.value) == "slurm.conf:6: PenstockXidFile: none.toml: No such file or directory"
    assert load(write(whole + "PenstockXidFile=none\n")).config.gpu_xids == ()
    with pytest.raises(ConfigError) as error:
        load(write(whole + "PenstockXidFile=xids.toml\n", xids_toml="# " + "x" * 1024 * 1024))
    assert str(error.value) == "slurm.conf:6: PenstockXidFile: xids.toml: larger than 1048576 bytes"
