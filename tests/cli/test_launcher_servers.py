"""Command servers come and go: upgrades, crashes, leftovers, folders that cannot be trusted, other contexts."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from launched import Launched, build, kill, state_of, wait_for
from patience import ANSWER_S

from cli.commandserver.server import listening
from penstock.keep import NUMBER
from penstock.v1 import controller_pb2 as pb
from tests.cli.fake_controller import WireController

VERSION = (0, b"slurm 25.05.0\n", b"")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("b"))


@pytest.fixture
def launched(tmp_path_factory, program):
    made = Launched(tmp_path_factory.mktemp("s"), program)
    yield made
    made.close()


def ask(launched, **options):
    done = launched.run("squeue", "-V", **options)
    return done.returncode, done.stdout, done.stderr


def workers_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def the_worker_of(pid: int) -> int:
    """The one that has served a call; one that a probe had made ends at once."""
    return wait_for(lambda: len(workers_of(pid)) == 1 and workers_of(pid), "one worker rests")[0]


@pytest.mark.parametrize("change", ["written", "replaced", "removed"])
def test_after_an_upgrade(launched, change):
    pid = launched.warm()
    code = launched.code / "cli" / "base" / "options.py"
    text = code.read_text().replace("{SLURM_VERSION}", "99.1.2")
    if change == "written":
        code.write_text(text)
    elif change == "replaced":
        (launched.code / "new").write_text(text)
        (launched.code / "new").rename(code)
    else:
        code.unlink()
        (launched.code / "cli" / "base" / "options").mkdir()
        (launched.code / "cli" / "base" / "options" / "__init__.py").write_text(text)
    new = b"slurm 99.1.2\n"
    # The server looks ten times a second; from then on nobody gets the old code.
    wait_for(lambda: ask(launched) == (0, new, b""), "the new version answers")
    wait_for(lambda: state_of(pid) in ("", "Z"), "the old server ends")
    second = wait_for(lambda: ask(launched) == (0, new, b"") and launched.server(), "a new server")
    launched.starts()
    assert second != pid and ask(launched) == (0, new, b"") and launched.starts() == []


def test_a_server_that_was_killed_leaves_nothing_in_the_way(launched):
    pid = launched.warm()
    kill(pid)
    wait_for(lambda: launched.server() is None, "its workers have closed the socket too")
    assert len(launched.sockets()) == 1
    assert ask(launched) == VERSION
    wait_for(launched.server, "another server")
    assert sorted(launched.starts()) == ["server", "squeue"]
    assert ask(launched) == VERSION and launched.starts() == []


def test_what_dead_servers_left_is_cleared_away(launched):
    kill(launched.warm())
    for n in range(12):
        (launched.servers_dir / f"dead{n}.lock").touch()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(launched.servers_dir / f"dead{n}"))
    launched.warm()
    assert len(list(launched.servers_dir.iterdir())) == 2


def test_no_more_servers_than_a_few(launched):
    launched.servers_dir.mkdir(mode=0o700)
    held = []
    for n in range(8):
        held.append(os.open(launched.servers_dir / f"x{n}.lock", os.O_RDWR | os.O_CREAT))
        fcntl.flock(held[-1], fcntl.LOCK_EX)
    assert ask(launched) == VERSION and ask(launched) == VERSION
    assert launched.starts() == ["squeue", "squeue"]
    for lock in held:
        os.close(lock)


def test_many_first_calls_start_one_server(launched):
    calls = [launched.start("squeue", "-V") for _ in range(8)]
    assert [call.communicate(timeout=ANSWER_S)[0] for call in calls] == [VERSION[1]] * 8
    wait_for(launched.server, "a server")
    assert launched.starts().count("server") == 1 and len(launched.sockets()) == 1


def test_a_quiet_server_ends_and_leaves_nothing(launched):
    launched.env[b"PENSTOCK_COMMAND_SERVER_IDLE_S"] = b"5"  # longer than it takes to see it on a busy machine
    pid = launched.warm()
    wait_for(lambda: state_of(pid) in ("", "Z"), "it ends")
    assert list(launched.servers_dir.iterdir()) == []


def test_a_server_whose_folder_is_removed_ends(launched):
    pid = launched.warm()
    for path in launched.servers_dir.iterdir():
        path.unlink()
    launched.servers_dir.rmdir()
    launched.env[b"PENSTOCK_COMMAND_SERVER_IDLE_S"] = b"1"
    second = wait_for(lambda: ask(launched) == VERSION and launched.server(), "another server")
    assert second != pid
    kill(pid)


def test_a_server_that_hangs_is_not_waited_for_long(launched):
    pid = launched.warm()
    os.kill(pid, signal.SIGSTOP)
    assert ask(launched) == VERSION and launched.starts() == ["squeue"]
    os.kill(pid, signal.SIGCONT)
    # The call that was given up is not carried out as well.
    assert ask(launched) == VERSION and launched.starts() == []


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_cannot_be_trusted_is_not_used(launched, kind, tmp_path):
    if kind == "open":
        launched.servers_dir.mkdir()
        launched.servers_dir.chmod(0o755)
    elif kind == "link":
        (tmp_path / "there").mkdir(mode=0o700)
        launched.servers_dir.symlink_to(tmp_path / "there")
    else:
        launched.servers_dir.touch()
    assert ask(launched) == VERSION and launched.starts() == ["squeue"]
    assert launched.servers_dir.is_file() or list(launched.servers_dir.iterdir()) == []


@pytest.mark.root
def test_a_folder_of_somebody_else_is_not_used(launched):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    launched.servers_dir.mkdir(mode=0o700)
    os.chown(launched.servers_dir, 65534, 65534)
    assert ask(launched) == VERSION and launched.starts() == ["squeue"]
    assert list(launched.servers_dir.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize("prefix", [["unshare", "--uts"], ["unshare", "--mount"], ["setpriv", "--no-new-privs"],
                                    ["setpriv", "--regid", "1", "--clear-groups"], ["nice", "-n", "3"]])  # fmt: skip
def test_another_context_is_not_served(launched, prefix):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    launched.warm()
    line = [*prefix, launched.bin / "squeue", "-V"]
    done = subprocess.run(line, env=launched.env, capture_output=True, timeout=ANSWER_S)
    assert (done.returncode, done.stdout) == VERSION[:2]
    assert "squeue" in launched.starts()


@pytest.mark.root
def test_a_socket_of_somebody_else_is_not_spoken_to(launched):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    pid = launched.warm()
    (path,) = launched.sockets()
    kill(pid)
    path.unlink()
    code = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.setuid(65534); s.listen()\n"
        "print('there', flush=True); c = s.accept()[0]; print(c.recv(1000))"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"there\n"
        assert ask(launched) == VERSION and launched.starts() == ["squeue"]
        assert other.stdout.readline() == b"b''\n"  # it was told nothing


def test_a_worker_serves_again_only_after_success(launched):
    pid = launched.warm()
    # More than once, if need be: a launcher that waits too long for the server runs the command itself.
    worker = wait_for(lambda: ask(launched) and len(workers_of(pid)) == 1 and workers_of(pid), "one worker serves")[0]
    for _ in range(5):
        wait_for(lambda: resting(worker), "it is free again")
        ask(launched)
    assert workers_of(pid) == [worker]
    wait_for(lambda: resting(worker), "it is free again")
    assert launched.run("squeue", "--nope").returncode == 1
    wait_for(lambda: worker not in workers_of(pid), "it is replaced")
    assert ask(launched) == VERSION and launched.starts() == []


def test_what_a_call_leaves_is_not_there_in_the_next(launched, tmp_path):
    """Files, folder, environment, streams: one worker serves both calls."""
    controller = WireController(tmp_path, {"SubmitJob": lambda request: pb.SubmitJobReply(job_id=1)})
    launched.env[b"PENSTOCK_CLUSTER"] = os.fsencode(controller.cluster_file)
    pid = launched.warm()
    (tmp_path / "f").touch()
    with open(tmp_path / "f") as extra:
        done = launched.run("sbatch", "--wrap=x", env={b"A": b"1"}, cwd=tmp_path, pass_fds=[extra.fileno()])
    assert done.returncode == 0
    worker = the_worker_of(pid)
    links = wait_for(lambda: resting(worker), "it has let go of everything")
    assert sorted(links) == ["/dev/null"] * 3 + ["socket"]
    assert os.readlink(f"/proc/{worker}/cwd") == "/"
    assert launched.run("sbatch", "--wrap=x").returncode == 0
    assert workers_of(pid) == [worker] and launched.starts() == []
    (_, first), (_, second) = controller.requests
    assert b"A=1" in first.spec.environment and b"A=1" not in second.spec.environment
    controller.close()


#: The system call in which a worker waits for its next one, as a number.
RECVMSG = {"x86_64": "47", "aarch64": "212"}[os.uname().machine]


def resting(pid: int) -> list[str] | None:
    """What a worker that waits for a call has open, but for the connection that it keeps."""
    if Path(f"/proc/{pid}/syscall").read_text().split()[0] != RECVMSG:  # it has not said yet that it is free
        return None
    files = [path for path in Path(f"/proc/{pid}/fd").iterdir() if path.name != str(NUMBER)]
    links = [os.readlink(path).partition(":")[0] for path in files]
    return links if links.count("socket") == 1 else None


def test_a_reader_of_output_sees_its_end(launched):
    """A resting worker holds no pipe of its last caller open."""
    launched.warm()
    line = '"$0" -V | cat'
    for _ in range(3):
        done = subprocess.run(
            ["sh", "-c", line, launched.bin / "squeue"], env=launched.env, capture_output=True, timeout=ANSWER_S
        )
        assert done.stdout == VERSION[1]
    assert launched.starts() == []


def test_a_server_is_seen_when_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that has a name and does not listen refuses: on a busy machine a call that came then ran in plain Python."""
    monkeypatch.chdir(tmp_path)  # whose path is too long for a socket
    path = Path("a" * 32)
    unheard = Path(f".{'a' * 30}")
    for left in (path, unheard):  # of a server that was killed
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(left))
    real, seen = socket.socket.listen, list[list[str]]()

    def listen(self: socket.socket, backlog: int) -> None:
        seen.append(os.listdir())
        real(self, backlog)

    monkeypatch.setattr(socket.socket, "listen", listen)
    with listening(str(path)), socket.socket(socket.AF_UNIX) as caller:
        assert seen == [[unheard.name]] and os.listdir() == [path.name]
        caller.connect(str(path))
        assert path.stat().st_mode & 0o777 == 0o600
