"""Item 8: what a daemon is allowed is not what its children are allowed; and who can reach the ports of `penstock up`."""

import asyncio
import pwd
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openway import open_way

from cli.subcommands.localcluster import LocalCluster
from cli.subcommands.localconf import LocalClusterOptions
from ctld.agents import fence
from ctld.core.records.effects import RunTrigger
from ctld.core.records.events import TriggerEnded
from ctld.runtime import programs
from ctld.runtime.siteprograms import Program, run
from nodedaemon.base import scripts
from tests.runtime.test_runtime_triggers import run as run_trigger

ROOT = Path(__file__).parents[2]
NOBODY = pwd.getpwnam("nobody")
SCORE = Path("/proc/self/oom_score_adj")
TELL = '#!/bin/sh\n{ cat /proc/$$/oom_score_adj; sh -c "cat /proc/self/oom_score_adj"; } > "$0.new"; mv "$0.new" "$0.out"\n'


@pytest.fixture
def teller(tmp_path: Path) -> Any:
    """A program that says its score and a child's, in a process that has another one (lowering it is not for everybody)."""
    open_way(tmp_path)
    tmp_path.chmod(0o777)
    path = tmp_path / "tell"
    path.write_text(TELL)
    path.chmod(0o755)
    own = SCORE.read_text()
    SCORE.write_text("300")
    yield path
    SCORE.write_text(own)


def told(teller: Path) -> list[str]:
    return Path(f"{teller}.out").read_text().split()


@pytest.mark.root
def test_a_users_trigger_may_be_killed_when_memory_is_short(teller: Path) -> None:
    effect = RunTrigger(4, NOBODY.pw_uid, NOBODY.pw_gid, "nobody", str(teller), "n1")
    assert run_trigger(effect) == [TriggerEnded(4)]
    assert told(teller) == ["0", "0"]


def test_programs_have_the_limit_of_open_files_that_the_controller_was_started_with(teller: Path) -> None:
    """The controller raises its own, for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    began = programs.FILES
    teller.write_text(f'#!/bin/sh\nuntil [ $(ulimit -Sn) = {began[0]} ]; do :; done\necho done > "$0.out"\n')
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1 if soft == began[0] else soft, hard))
    try:
        assert not asyncio.run(run(Program([str(teller)], {"PATH": "/bin:/usr/bin"}, 30))).failure
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert told(teller) == ["done"]


def test_so_may_the_sites_programs_on_the_controllers_machine(teller: Path) -> None:
    """The daemon writes their score right after their start, so the program waits for its input before it says it."""
    teller.write_text(TELL.replace("\n", "\nuntil [ $(cat /proc/$$/oom_score_adj) = 0 ]; do :; done\n", 1))
    assert not asyncio.run(run(Program([str(teller)], {"PATH": "/bin:/usr/bin"}, 30))).failure
    assert told(teller) == ["0", "0"]
    Path(f"{teller}.out").unlink()
    assert asyncio.run(fence.fence(str(teller), "n1", "c", 30)) == ""
    assert told(teller) == ["0", "0"]


@pytest.mark.parametrize("forked", [False, True])
def test_so_may_the_sites_programs_on_a_node(teller: Path, forked: bool) -> None:
    """Prolog, Epilog, health check, reboot: started with and without something to do before. From a process of its own,
    which has one thread."""
    before = "lambda: None" if forked else "None"
    program = (
        f"from nodedaemon.base import scripts; print(scripts.run([{str(teller)!r}], {{}}, 30.0, {before}).failure)"
    )
    teller.write_text(TELL.replace("\n", "\nuntil [ $(cat /proc/$$/oom_score_adj) = 0 ]; do :; done\n", 1))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n" and told(teller) == ["0", "0"]


def test_a_program_that_was_killed_at_once_is_nobodys_trouble() -> None:
    assert scripts.run(["/bin/true"], {}, 30.0).failure == ""


@pytest.mark.root
@pytest.mark.parametrize(
    ("use_pam", "found"), [(True, "(321, 321) (77, 321) 321"), (False, "(321, 321) (77, 321) 5000")]
)
def test_submitted_limits_stay_below_those_of_pam(tmp_path: Path, use_pam: bool, found: str) -> None:
    """libpam reads /etc/pam.d, so a private copy is mounted there for the test's own processes. What is asked of the kernel
    is noted and held back: not every root may raise hard limits."""
    etc, limits = tmp_path / "pam.d", tmp_path / "limits.conf"
    etc.mkdir()
    limits.write_text("* hard nofile 321\n* soft nofile 123\n")
    (etc / "slurm").write_text(
        f"auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_limits.so conf={limits}\n"
    )
    program = f"""
import resource
from types import SimpleNamespace
from nodedaemon.stepd import task
if not {use_pam}: resource.setrlimit(resource.RLIMIT_NOFILE, (123, 321))
asked, really = [], resource.setrlimit
def noted(number, limits):
    asked.append(limits[1])
    if limits[1] <= 321: really(number, limits)
task.resource = SimpleNamespace(**vars(resource) | {{"setrlimit": noted}})
order = SimpleNamespace(private_tmp="", use_pam={use_pam}, user_name="nobody", user_id={NOBODY.pw_uid},
    group_id={NOBODY.pw_gid}, rlimits={{"NOFILE": 5000}}, no_new_privs=True)
task.become_user(order, SimpleNamespace(is_root=True))
task._set_soft_limits(order.rlimits, 1000)
first = resource.getrlimit(resource.RLIMIT_NOFILE)
task._set_soft_limits({{"NOFILE": 77}}, 1000)
print(first, resource.getrlimit(resource.RLIMIT_NOFILE), max(asked))
"""
    mount = f'mount --bind {etc} /etc/pam.d && exec {sys.executable} -c "$0"'
    words = ["unshare", "--mount", "sh", "-c", mount, program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (found, "")


def test_a_cluster_of_ones_own_listens_on_the_loopback_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With certificates a node daemon listens everywhere, unless it is configured."""
    cluster = LocalCluster.create(tmp_path / "home", LocalClusterOptions(nodes=2))
    lines: list[list[str]] = []
    monkeypatch.setattr(cluster, "launch", lambda name, words, mark: lines.append(words))
    for node in cluster.nodes:
        cluster.start_node(node)
    assert [words[words.index("--stream-bind") + 1] for words in lines] == ["127.0.0.1"] * 2


def test_08_so_does_its_rest_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the controller and its page of metrics, by the configuration that is written."""
    cluster = LocalCluster.create(tmp_path / "home", LocalClusterOptions(nodes=1))
    lines: list[list[str]] = []
    monkeypatch.setattr(cluster, "launch", lambda name, words, mark: lines.append(words))
    cluster.start_rest(web=True)
    (words,) = lines
    where = [words[at + 1] for at, word in enumerate(words) if word == "--listen"]
    assert where[0] == f"unix:{cluster.rest_socket}" and len(where) == 2
    assert where[1].startswith("127.0.0.1:") and "--allow-plain" not in words
    conf = (tmp_path / "home" / "slurm.conf").read_text()
    assert "SlurmctldHost=localhost(127.0.0.1)" in conf and "0.0.0.0" not in conf
