"""The connection that a worker of the command server keeps: when it is used again, and when never."""

import contextlib
import gc
import os
import socket
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from launched import Launched, build, wait_for

import penstock.keep
from penstock.client import Client
from penstock.clusterfile import read_cluster
from penstock.errors import PenstockError
from penstock.keep import NUMBER, Keeper, controller_key
from penstock.v1 import controller_pb2 as pb
from tests.cli.fake_controller import TOKEN, WireController


def controller(folder: Path, first: int = 1) -> WireController:
    ids = iter(range(first, first + 1000))
    folder.mkdir(exist_ok=True)
    for left in ("ctld.sock", "auth.sock"):
        (folder / left).unlink(missing_ok=True)
    return WireController(folder, {"SubmitJob": lambda request: pb.SubmitJobReply(job_id=next(ids))})


@pytest.fixture
def wire(tmp_path):
    made = controller(tmp_path / "c")
    yield made
    made.close()


@pytest.fixture
def keeper(monkeypatch):
    made = Keeper(700, controller_key)
    monkeypatch.setattr(Client, "keeper", made)
    yield made
    made.drop()


def call(wire: WireController, word: str = "") -> int:
    with Client.open(cluster=read_cluster(wire.cluster_file)) as client:
        return client.call("SubmitJob", pb.SubmitJobRequest(request_key=word), 20).job_id


def inode() -> int:
    return os.fstat(700).st_ino


def test_a_second_client_uses_the_connection_of_the_first(keeper, wire):
    assert call(wire, "a") == 1
    first = inode()
    assert keeper.number() == 700 and not os.get_inheritable(700)
    assert call(wire, "b") == 2 and inode() == first
    assert wire.tokens == [TOKEN, TOKEN]  # one for each call


def test_nothing_of_a_call_stays_in_the_connection(keeper, wire):
    call(wire, "a-secret-of-the-first")
    held = reachable(keeper)
    assert any(b"SubmitJob" in text for text in held)  # the path, in the table of headers
    assert not any(b"secret" in text or TOKEN in text or b"token" in text for text in held)


def reachable(root: object) -> list[bytes]:
    """All bytes and texts that the object holds, however deep; not what is the program's."""
    seen: dict[int, object] = {}
    texts, new = [], [root]
    while new:
        one = new.pop()
        if id(one) in seen or isinstance(one, (type, FunctionType, ModuleType)):
            continue
        seen[id(one)] = one
        if isinstance(one, (bytes, bytearray)):
            texts.append(bytes(one))
        elif isinstance(one, str):
            texts.append(one.encode())
        else:
            new += gc.get_referents(one)
    return texts


def test_another_cluster_gets_another_connection(keeper, wire, tmp_path):
    other = controller(tmp_path / "d", 500)
    try:
        assert (call(wire), call(other), call(wire)) == (1, 500, 2)
        assert (len(wire.requests), len(other.requests)) == (2, 1)
    finally:
        other.close()


def test_two_clusters_at_a_time(keeper, wire, tmp_path):
    other = controller(tmp_path / "d", 500)
    try:
        with Client.open(cluster=read_cluster(wire.cluster_file)) as client:
            assert client.call("SubmitJob", pb.SubmitJobRequest()).job_id == 1
            assert call(other) == 500 and keeper.number() is None
            assert client.call("SubmitJob", pb.SubmitJobRequest()).job_id == 2
        assert keeper.number() == 700 and (call(wire), call(other)) == (3, 501)
    finally:
        other.close()


def test_a_controller_that_was_restarted(keeper, tmp_path):
    first = controller(tmp_path / "c")
    assert call(first) == 1
    first.server.stop(None).wait()
    first.close()
    again = controller(tmp_path / "c", 100)
    try:
        assert call(again) == 100
    finally:
        again.close()


def test_a_socket_that_was_made_anew_while_the_old_connection_lives(keeper, wire, tmp_path):
    call(wire)
    (tmp_path / "c").rename(tmp_path / "old")
    again = controller(tmp_path / "c", 100)
    try:
        assert call(again) == 100
    finally:
        again.close()


def test_a_connection_that_was_broken_between_calls(keeper, wire):
    call(wire)
    with socket.socket(fileno=os.dup(700)) as same:
        same.shutdown(socket.SHUT_RDWR)
    assert call(wire) == 2


def test_a_file_that_took_the_number_is_left_alone(keeper, wire):
    call(wire)
    reader, writer = os.pipe()
    os.dup2(writer, 700)
    assert call(wire) == 2 and keeper.number() is None
    os.write(700, b"x")
    assert os.read(reader, 1) == b"x"
    for number in (700, reader, writer):
        os.close(number)
    assert call(wire) == 3 and keeper.number() == 700


def test_a_connection_is_not_kept_for_long(keeper, wire, monkeypatch):
    call(wire)
    first = inode()
    monkeypatch.setattr(penstock.keep, "KEEP_S", -1.0)
    assert call(wire) == 2 and inode() != first


def test_a_call_that_failed_keeps_nothing_that_is_broken(keeper, tmp_path):
    def fail(request):
        raise ValueError("of the test")

    wire = WireController(tmp_path, {"SubmitJob": fail})
    try:
        with pytest.raises(PenstockError):
            call(wire)
        with pytest.raises(PenstockError):
            call(wire)
        assert len(wire.requests) == 2
    finally:
        wire.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("b"))


@pytest.fixture
def launched(tmp_path_factory, program, wire):
    made = Launched(tmp_path_factory.mktemp("s"), program, wire.cluster_file)
    yield made
    made.close()


def kept_by_workers(server: int) -> set[str]:
    """The connections that resting workers have open; they have nothing else but the way to the server."""
    found = set()
    for worker in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        files = {}
        # Its files may close meanwhile, and those of a process that has ended belong to root until it is waited for.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for number in os.listdir(f"/proc/{worker}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    files[number] = os.readlink(f"/proc/{worker}/fd/{number}")
        if len(files) == 5 and str(NUMBER) in files:
            found.add(files[str(NUMBER)])
    return found


def submit(launched: Launched, **options: object) -> bytes:
    done = launched.run("sbatch", "--parsable", "--wrap=x", **options)
    assert (done.returncode, done.stderr) == (0, b""), done
    return bytes(done.stdout).strip()


def test_a_worker_keeps_one_file_from_call_to_call(launched, wire):
    server = launched.warm()
    assert submit(launched) == b"1"
    first = wait_for(lambda: kept_by_workers(server), "a worker rests with its connection")
    assert submit(launched) == b"2"
    assert wait_for(lambda: kept_by_workers(server), "it rests again") == first
    assert launched.starts() == []


def test_a_worker_with_two_clusters_and_a_caller_with_many_files(launched, wire, tmp_path):
    launched.warm()
    other = controller(tmp_path / "d", 500)
    elsewhere = {b"PENSTOCK_CLUSTER": os.fsencode(other.cluster_file)}
    reader, writer = os.pipe()
    os.dup2(writer, NUMBER + 1)
    try:
        assert [submit(launched), submit(launched, env=elsewhere), submit(launched)] == [b"1", b"500", b"2"]
        assert submit(launched, pass_fds=(NUMBER + 1,)) == b"3"
        assert submit(launched) == b"4"
    finally:
        other.close()
        for number in (NUMBER + 1, reader, writer):
            os.close(number)
    assert launched.starts() == []
