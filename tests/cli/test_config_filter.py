"""penstock config check names what the controller could not load: the files of submit filters."""

import os
import pwd
from pathlib import Path

import pytest

from cli.subcommands.configcheck import main
from penstock.config import filterfiles, load

CONF = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
StateSaveLocation={folder}/s
{more}
NodeName=n1 CPUs=4 RealMemory=4000
PartitionName=debug Nodes=n1 Default=YES
"""
CANNOT = "warning: the submit filter cannot be loaded: "


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Returns the warnings for a configuration with these lines."""

    def check(more: str) -> list[str]:
        conf = tmp_path / "slurm.conf"
        conf.write_text(CONF.format(folder=tmp_path, more=more))
        assert main([str(conf)]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith(CANNOT)]

    return check


def test_the_file_of_a_python_filter(said, tmp_path: Path) -> None:
    path = tmp_path / "filter.py"
    more = f"PenstockSubmitFilter={path}"
    assert said("") == []
    assert said(more) == [f"{CANNOT}{path}: No such file or directory"]
    path.write_text("def job_submit(job, submitter):\n    pass\n")
    path.chmod(0o622)
    assert said(more) == [f"{CANNOT}{path}: others than its owner can write to it: chmod go-w {path}"]
    path.chmod(0o600)
    assert said(more) == []
    path.write_bytes(b"\n\xff")
    assert said(more) == [f"{CANNOT}{path}:2: not UTF-8"]
    path.unlink()
    os.mkfifo(path)
    assert said(more) == [f"{CANNOT}{path}: not a regular file"]


@pytest.mark.root
def test_the_owner(said, tmp_path: Path) -> None:
    path = tmp_path / "filter.py"
    path.write_text("")
    path.chmod(0o600)
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(path, nobody, 0)
    assert said(f"PenstockSubmitFilter={path}") == [
        f"{CANNOT}{path}: it belongs to uid {nobody}, and not to root or root"
    ]


def test_the_file_of_lua_and_its_library(said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filterfiles, "find_spec", lambda name: None)
    assert said("JobSubmitPlugins=lua") == [f"{CANNOT}JobSubmitPlugins=lua needs lupa: pip install 'penstock[lua]'"]
    monkeypatch.setattr(filterfiles, "find_spec", lambda name: name)
    path = tmp_path / "job_submit.lua"
    assert said("JobSubmitPlugins=lua") == [f"{CANNOT}{path}: No such file or directory"]
    path.write_text("return slurm.SUCCESS\n")
    path.chmod(0o600)
    assert said("JobSubmitPlugins=lua") == []


def test_a_cluster_file_says_which_filters_of_options_may_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their files are checked by the same rules."""
    conf = tmp_path / "slurm.conf"
    wanted = f"CliFilterPlugins=lua,syslog\nPenstockCliFilter={tmp_path}/f.py\n"
    for rule, mark in (("refuse", ""), ("accept", "accept:")):
        conf.write_text(CONF.format(folder=tmp_path, more=f"{wanted}PenstockCliFilterFailure={rule}\n"))
        assert filterfiles.cli_filters(load(str(conf)).config, str(tmp_path)) == (
            f"{mark}python:{tmp_path}/f.py", f"{mark}lua:{tmp_path}/cli_filter.lua", "syslog",
        )  # fmt: skip
        assert main([str(conf)]) == 0
        lines = [
            line for line in capsys.readouterr().out.splitlines() if "the filter of options cannot be loaded" in line
        ]
        assert [line.split(": ")[2] for line in lines] == [f"{tmp_path}/f.py", f"{tmp_path}/cli_filter.lua"]
    conf.write_text(CONF.format(folder=tmp_path, more="PenstockCliFilterFailure=open"))
    assert main([str(conf)]) == 78
