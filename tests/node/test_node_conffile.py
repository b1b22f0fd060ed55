"""A node's own slurm.conf, Slurm's --conf-server, and the short file that jobs find by SLURM_CONF."""

import os
from pathlib import Path

import pytest

from ctld.agents.settings import job_conf, node_settings
from nodedaemon import main
from nodedaemon.base import conffile
from nodedaemon.commandline import command_line
from nodedaemon.launch.site import Site
from penstock.config import load
from penstock.values.config import Config

CONF = """\
ClusterName=c
SlurmctldHost=head(10.0.0.1)
SlurmctldPort=7001
PenstockNodePort=7002
SlurmdSpoolDir=/var/spool/%h/%n
SlurmdPort=7003
NodeName=n1 Port=7004
NodeName=n2
PartitionName=p Nodes=ALL
"""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("head", "head:6819"), ("head:7000", "head:7000"), ("head,second:1", "head:6819"), ("10.0.0.1", "10.0.0.1:6819"),
        ("fe80::1", "[fe80::1]:6819"), ("[fe80::1]:70", "[fe80::1]:70"), ("unix:/run/x.sock", "unix:/run/x.sock"),
    ],
)  # fmt: skip
def test_servers(text: str, address: str) -> None:
    assert conffile.first_server(text, 6819) == address


def test_the_place_of_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "slurm.conf"
    monkeypatch.setenv("SLURM_CONF", str(path))
    assert conffile.read_paths("n1", "host") == conffile.ConfigPaths()
    path.write_text(CONF)
    wanted = conffile.ConfigPaths("10.0.0.1:7002", "10.0.0.1:7001", "/var/spool/host/n1", 7004)
    assert conffile.read_paths("n1", "host") == wanted
    assert conffile.read_paths("n2", "host").stream_port == 7003


def test_what_the_command_line_leaves_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "slurm.conf"
    monkeypatch.setenv("SLURM_CONF", str(path))

    def completed(*argv: str) -> tuple[str, str, str]:
        args = command_line().parser().parse_args(["--node-name", "n1", *argv])
        assert main.complete(args)
        return args.controller, args.spool, args.stream_port

    assert completed("--conf-server=head") == ("head:6819", "/var/spool/penstock/noded", "6818")
    assert not main.complete(command_line().parser().parse_args([]))
    assert "--controller HOST:PORT (or --conf-server) is needed" in capsys.readouterr().err
    path.write_text(CONF)
    assert completed()[0] == "10.0.0.1:7002"
    assert completed("--login")[0] == "10.0.0.1:7001"
    assert completed("--controller", "x:1", "--spool", "/s", "--stream-port", "0") == ("x:1", "/s", "0")
    path.write_text(CONF + "CliFilterPlugins=lua,syslog\n")
    args = command_line().parser().parse_args(["--login", "--controller", "x:1", "--spool", "/s"])
    assert main.complete(args) and args.cli_filters == (f"lua:{tmp_path}/cli_filter.lua", "syslog")
    path.write_text(CONF + "Nonsense=1\n")
    assert not main.complete(command_line().parser().parse_args([]))
    assert "slurm.conf:10: unknown parameter Nonsense" in capsys.readouterr().err


def test_the_file_for_jobs(tmp_path: Path) -> None:
    """It can be read as a slurm.conf, has no secret, and is written only when it changes."""
    config = Config(
        cluster_name="c",
        controller_host="head",
        controller_addr="10.0.0.1",
        penstock_database_url="postgresql://u:secret@h/d",
        penstock_database_read_url="postgresql://r:secret@h/d",
    )
    site = Site()
    site.slurm_conf = str(tmp_path / "slurm.conf")
    settings = node_settings(config)
    site.take(settings)
    text = Path(site.slurm_conf).read_text()
    assert text == job_conf(config) and "secret" not in text
    first = os.stat(site.slurm_conf).st_ino
    site.take(settings)
    assert os.stat(site.slurm_conf).st_ino == first
    whole = tmp_path / "whole.conf"
    whole.write_text(text + "NodeName=n1\nPartitionName=p Nodes=n1\n")
    again = load(str(whole)).config
    assert (again.cluster_name, again.controller_host, again.controller_addr) == ("c", "head", "10.0.0.1")


def test_02_a_spool_that_is_named_from_here_is_the_same_for_the_launcher(tmp_path, monkeypatch):
    """It leaves the working directory, and said so with a stack only."""
    monkeypatch.chdir(tmp_path)
    args = command_line().parser().parse_args(["--controller", "h:1", "--spool", "spool"])
    assert main.complete(args)
    assert args.spool == str(tmp_path / "spool")
