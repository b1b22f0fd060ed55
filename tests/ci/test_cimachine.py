"""What .ci/run does before the tests (tools/cimachine.sh), with an apt-get of the test's own."""

import os
import subprocess
from pathlib import Path

import pytest
import tidytree as tree
from patience import ANSWER_S

#: Notes its words; its first FAILS installations fail.
APT = """#!/bin/sh
echo "$*" >>"$NOTES"
[ "$1" = update ] || [ "$(grep -c install "$NOTES")" -gt "$FAILS" ]
"""


def sourced(line: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Bash runs a line that has the functions."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", APT), ("id", "#!/bin/sh\necho ${USER_ID:-0}\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "NOTES": str(tmp_path / "notes"),
        "APT_PAUSE_S": "0",
    }
    return subprocess.run(
        ["bash", "-uc", f'. tools/cimachine.sh; {line}; echo "status $?"; printf "%s\\n" "${{missing[@]}}"'],
        cwd=tree.ROOT, env=env | environment, capture_output=True, text=True, check=True, timeout=ANSWER_S,
    )  # fmt: skip


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_packages_are_asked_for_three_times(tmp_path: Path, fails: int) -> None:
    done = sourced("install_packages 'make build' gcc make", tmp_path, FAILS=str(fails))
    assert done.stdout.split() == ["status", "0"]
    asked = (tmp_path / "notes").read_text().splitlines()
    assert asked == ["update -qq", "install -y -qq --no-install-recommends gcc make"] * (fails + 1)
    assert done.stderr.count("apt-get failed") == fails


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    done = sourced("install_packages 'make build' gcc make", tmp_path, FAILS="3")
    assert done.stdout.splitlines() == ["status 1", "gcc make (make build)"]


@pytest.mark.parametrize(
    ("fails", "words"),
    [("0", ["status 0", ""]), ("3", ["status 0", ""]), ("6", ["status 1", "chromium-shell (web)", "chromium (web)"])],
)
def test_a_package_is_not_named_where_another_takes_its_place(tmp_path: Path, fails: str, words: list[str]) -> None:
    done = sourced("install_one_of web chromium-shell chromium", tmp_path, FAILS=fails)
    assert done.stdout.splitlines() == words


def test_who_may_not_install_packages_does_not_try(tmp_path: Path) -> None:
    done = sourced("install_packages 'make build' gcc", tmp_path, USER_ID="1000")
    assert done.stdout.splitlines() == ["status 1", "gcc (make build)"]
    assert not (tmp_path / "notes").exists()


def test_environments_that_were_not_made_are_named(tmp_path: Path) -> None:
    (tmp_path / "made" / "mpich").mkdir(parents=True)
    (tmp_path / "made" / "mpich" / ".done").touch()
    line = f"name_missing_environments tests/mpi '{tmp_path}/made' x/requirements-mpich.txt x/requirements-torch.txt y/dask.txt"
    assert sourced(line, tmp_path).stdout.splitlines() == ["status 0", "torch (tests/mpi)", "dask (tests/mpi)"]


@pytest.mark.parametrize(("load", "left_s"), [("0.93", "180"), ("7.50", "0")])
def test_a_quiet_machine_or_the_end_of_patience_begins(tmp_path: Path, load: str, left_s: str) -> None:
    (tmp_path / "loadavg").write_text(f"{load} 1.00 1.00 1/1 1\n")
    done = sourced("wait_until_quiet", tmp_path, LOADAVG=str(tmp_path / "loadavg"), QUIET_WAIT_S=left_s)
    assert done.stdout.startswith(f"load {load} on ")


def test_a_machine_that_becomes_quiet_is_waited_for(tmp_path: Path) -> None:
    """The pause between two times is played: it ends the load."""
    (tmp_path / "loadavg").write_text("3.10 1.00 1.00 1/1 1\n")
    line = 'sleep() { echo "0.40 1 1" >"$LOADAVG"; }; wait_until_quiet'
    assert sourced(line, tmp_path, LOADAVG=str(tmp_path / "loadavg")).stdout.startswith("load 0.40 on ")
