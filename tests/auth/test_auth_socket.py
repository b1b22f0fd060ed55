"""The auth socket: the kernel says who calls, nothing that the caller sends matters, nobody can hold it up."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from patience import ANSWER_S

from penstock.errors import BadSetup
from penstock.security import authd
from penstock.security.authd import AuthServer
from penstock.security.ca import create_ca, ensure_controller
from penstock.security.tokens import TokenIssuer, TokenVerifier
from penstock.transport import fetch_token


def clock_us():
    return time.time_ns() // 1000


class Served:
    """An auth socket at folder/auth.sock, and the verifier that believes it."""

    def __init__(self, folder):
        self.path = folder / "auth.sock"
        ca = create_ca(folder / "ca", "c", clock_us())
        self.verifier = TokenVerifier(ca.certificate, "c", clock_us())
        self.server = AuthServer(
            self.path, TokenIssuer(ensure_controller(folder / "ca", "h", ("localhost",), clock_us())), clock_us
        )

    def run(self, action):
        """Run `action` in a thread while the socket is served; its result."""

        async def go():
            self.server.start()
            try:
                return await asyncio.to_thread(action)
            finally:
                self.server.close()

        return asyncio.run(go())

    def whose(self, token):
        claims = self.verifier.verify(token, clock_us())
        return claims.uid, claims.gid


@pytest.fixture
def served(tmp_path):
    return Served(tmp_path)


def test_a_caller_is_who_the_kernel_says(served):
    token = served.run(lambda: fetch_token(str(served.path), 10))
    assert served.whose(token) == (os.geteuid(), os.getegid())
    assert not served.path.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_uid_gets_his_own_token():
    folder = Path(tempfile.mkdtemp())  # pytest's own folders cannot be entered by others
    folder.chmod(0o711)
    try:
        served = Served(folder)
        code = (
            "import os, socket, sys\n"
            "os.setgroups([]); os.setgid(65533); os.setuid(65534)\n"
            "s = socket.socket(socket.AF_UNIX); s.settimeout(120); s.connect(sys.argv[1])\n"
            "while d := s.recv(4096): sys.stdout.buffer.write(d)"
        )
        command = [sys.executable, "-I", "-S", "-c", code, str(served.path)]

        done = served.run(lambda: subprocess.run(command, cwd="/", capture_output=True, timeout=ANSWER_S))
        assert done.returncode == 0
        assert served.whose(done.stdout) == (65534, 65533)
    finally:
        shutil.rmtree(folder)


def test_what_a_caller_sends_does_not_matter(served):
    def chatter():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(str(served.path))
            with contextlib.suppress(BrokenPipeError):  # when it has answered and gone
                connection.sendall(b'{"uid": 0}' * 100)
            try:
                return connection.recv(4096)
            except ConnectionResetError:
                return b""

    token = served.run(chatter)
    assert token == b"" or served.whose(token) == (os.geteuid(), os.getegid())


def test_silent_callers_hold_nobody_up(served):
    def crowd():
        silent = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        for connection in silent:
            connection.connect(str(served.path))
        token = fetch_token(str(served.path), 10)
        for connection in silent:
            connection.close()
        return token

    assert served.whose(served.run(crowd))[0] == os.geteuid()


def test_many_callers_all_get_different_tokens(served):
    tokens = []

    def crowd():
        threads = [
            threading.Thread(target=lambda: tokens.append(fetch_token(str(served.path), 30))) for _ in range(100)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    served.run(crowd)
    assert len(tokens) == len(set(tokens)) == 100
    assert {served.whose(token)[0] for token in tokens} == {os.geteuid()}


def test_a_dead_daemons_socket_is_replaced(served):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(served.path))
    assert served.run(lambda: fetch_token(str(served.path), 10))


def test_a_living_daemons_socket_is_not(served):
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(served.path))
        living.listen()
        with pytest.raises(BadSetup, match="another daemon listens here"):
            served.run(lambda: None)
        assert served.path.exists()


def test_another_file_is_not_removed(served):
    served.path.write_text("precious")
    with pytest.raises(BadSetup, match="is not a socket"):
        served.run(lambda: None)
    assert served.path.read_text() == "precious"


def test_a_folder_that_others_can_write_to_is_refused(served, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(BadSetup, match="others may write here"):
        served.run(lambda: None)
    assert not served.path.exists()


def test_a_path_that_is_too_long_is_named(tmp_path):
    with pytest.raises(BadSetup, match="107 bytes"):
        authd.listen(tmp_path / ("x" * 120), 1)
