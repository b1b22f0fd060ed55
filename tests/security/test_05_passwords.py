"""Item 5, for passwords: what root does for a browser that has none of its rights yet. A real cluster, its REST daemon,
`penstock pamd` and PAM, with users of the test's own (tests/support/pamworld.py).

PAM's verdicts, and what its child may do, are in tests/auth/test_pamd_pam.py; budgets and pauses, without time, in
tests/auth/test_pamd_service.py.
"""

import asyncio
import contextlib
import json
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from launched import state_of, wait_for
from livecluster import LAUNCHERS, ClusterConf, LiveCluster
from liverest import PREFIX, LiveRest
from pamworld import PASSWORD, PamWorld
from patience import ANSWER_S, END_S

from pamd.budgets import NAME_ATTEMPTS
from pamd.service import TOO_OFTEN, WRONG
from rest.passwords import AWAY

pytestmark = pytest.mark.root
DAEMON = pwd.getpwnam("daemon")
NOBODY = pwd.getpwnam("nobody")


class Site:
    """A cluster with both daemons; `nobody` has PASSWORD."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "pam" / "pamd.sock"
        self.world = PamWorld(folder, ("nobody",))
        more = ("AuthAltTypes=auth/jwt", f"PenstockPamUser={DAEMON.pw_name}", f"PenstockPamSocket={self.socket}")
        self.cluster = LiveCluster(1, ClusterConf(more=more))
        self.rest = LiveRest(self.cluster, "--web", "--pam-socket", str(self.socket))
        self.log = folder / "pamd.log"
        self.pamd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts `penstock pamd`, and waits until it listens."""
        before = self.text().count("listening on")
        words = (str(LAUNCHERS / "penstock"), "pamd", "--config", str(self.cluster.slurm_conf))
        with self.log.open("ab") as output:
            self.pamd = subprocess.Popen(
                self.world.argv(*words), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=self.cluster.environment(),
            )  # fmt: skip
        wait_for(lambda: self.text().count("listening on") > before, f"pamd listens: {self.text()}")

    def end(self, number: int) -> int:
        """Ends it by a signal; returns its status."""
        assert self.pamd is not None
        self.pamd.send_signal(number)
        return self.pamd.wait(timeout=END_S)

    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def login(self, user: str, password: str = PASSWORD) -> httpx.Response:
        """What the page sends."""
        page = {"X-Penstock-Web": "none", "Origin": self.rest.url}
        with httpx.Client(base_url=self.rest.url, headers=page, timeout=ANSWER_S) as browser:
            return browser.post("/web/login", json={"user": user, "password": password})

    def ask(self, data: bytes) -> bytes:
        """Says something to pamd as root; returns what it answers until it disconnects."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(END_S)
            wire.connect(str(self.socket))
            with contextlib.suppress(BrokenPipeError):
                wire.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                return b"".join(iter(lambda: wire.recv(65536), b""))
        return b""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="pstk-pam-"))
    folder.chmod(0o755)
    site = Site(folder)
    with site.cluster as cluster:
        try:
            site.start()
            site.rest.start()
            yield site
        finally:
            print(cluster.logs(), site.text())
            if site.pamd is not None and site.pamd.poll() is None:
                site.end(signal.SIGKILL)
    shutil.rmtree(folder)


def test_05_a_password_becomes_its_users_session_and_no_more(site: Site) -> None:
    reply = site.login("nobody")
    assert reply.status_code == 200 and reply.json()["user"] == "nobody", reply.text
    page = {"X-Penstock-Web": reply.json()["key"], "Origin": site.rest.url}
    with httpx.Client(base_url=site.rest.url, headers=page, cookies=reply.cookies, timeout=ANSWER_S) as browser:
        assert browser.get("/web/session").json()["user"] == "nobody"
        script = {"script": "#!/bin/sh\nid -un", "job": {
            "name": "mine", "current_working_directory": "/tmp", "environment": ["PATH=/bin:/usr/bin"],
        }}  # fmt: skip
        made = browser.post(f"{PREFIX}/job/submit", json=script).json()
        (job,) = browser.get(f"{PREFIX}/job/{made['job_id']}").json()["jobs"]
        assert job["user_name"] == "nobody"
        assert browser.post(f"{PREFIX}/reconfigure").status_code >= 400
        assert browser.get(f"{PREFIX}/reconfigure").status_code >= 400
    assert "issue token" in site.cluster.run("penstock", "audit", "show").out
    (status,) = {int(one.status_code) for one in (httpx.get(f"{site.rest.url}{PREFIX}/jobs"),)}
    assert status == 401


def test_05_every_refusal_is_the_same(site: Site) -> None:
    """A wrong password, a locked account, one without a password, root's, the system's, and names that are no user's."""
    names = ("nobody", "pamlocked", "pamempty", "root", "daemon", "nosuch")
    with ThreadPoolExecutor(len(names)) as threads:
        replies = list(threads.map(lambda name: site.login(name, "wrong"), names))
    assert {one.status_code for one in replies} == {401}
    assert {json.dumps(one.json()["errors"]) for one in replies} == {json.dumps(replies[0].json()["errors"])}
    assert replies[0].json()["errors"][0]["description"] == WRONG
    assert not any("set-cookie" in one.headers for one in replies)
    expired = site.login("pammustchange")
    assert expired.status_code == 403 and "has expired" in expired.text
    log = site.text()
    assert "uid 0 is below PenstockPamMinUid" in log and "nosuch" not in log


def test_05_a_thousand_guesses_are_ten(site: Site) -> None:
    line = json.dumps({"name": "pamgood", "password": "guess", "address": "198.51.100.1"}).encode() + b"\n"

    async def guess() -> str:
        reader, writer = await asyncio.open_unix_connection(str(site.socket))
        writer.write(line)
        said = await reader.read()
        writer.close()
        return str(json.loads(said)["status"]) if said else "disconnected"

    async def all_of_them() -> list[str]:
        return [one for _ in range(10) for one in await asyncio.gather(*(guess() for _ in range(100)))]

    found = asyncio.run(all_of_them())
    assert len(found) == 1000 and set(found) <= {"no", "busy", "disconnected"}
    assert 0 < found.count("no") <= NAME_ATTEMPTS
    assert site.text().count("login of pamgood") == found.count("no")
    for _ in range(NAME_ATTEMPTS):
        reply = site.login("pamgood", "guess")
        if reply.status_code == 429:
            break
    assert reply.status_code == 429 and int(reply.headers["retry-after"]) > 0 and TOO_OFTEN in reply.text
    assert site.login("nobody").status_code == 200  # others log in as ever


def test_05_what_is_no_question_holds_nobody(site: Site) -> None:
    for data in (b"\n", b"{}\n", b"\xff" * 100 + b"\n", b"[" * 8000 + b"\n", b'{"name": "\\u0000"}\n'):
        assert json.loads(site.ask(data))["status"] == "broken"
    assert site.ask(b"x" * 1_000_000) == b""
    silent = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for wire in silent:
        wire.connect(str(site.socket))
    assert site.login("nobody").status_code == 200
    for wire in silent:
        wire.close()


def test_05_a_stranger_is_not_heard(site: Site) -> None:
    """Another user's process: first at the folder, then where an administrator has opened folder and socket to all."""
    program = (
        "import os, socket, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[3]))\n"
        "wire = socket.socket(socket.AF_UNIX)\n"
        "try:\n"
        "    wire.connect(sys.argv[1]); wire.sendall(b'{}\\n'); print('said', wire.recv(100))\n"
        "except OSError as error:\n"
        "    print(type(error).__name__)\n"
    )

    def as_user(uid: int, gid: int) -> str:
        words = [sys.executable, "-c", program, str(site.socket), str(gid), str(uid)]
        return subprocess.run(words, capture_output=True, text=True, timeout=END_S, check=True).stdout.strip()

    status = site.socket.parent.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, DAEMON.pw_gid, 0o710)
    status = site.socket.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (DAEMON.pw_uid, 0o600)
    assert as_user(NOBODY.pw_uid, NOBODY.pw_gid) == "PermissionError"
    assert as_user(NOBODY.pw_uid, DAEMON.pw_gid) == "PermissionError"  # of its group, and not its user
    assert as_user(DAEMON.pw_uid, DAEMON.pw_gid).startswith('said b\'{"status":"broken"')
    site.socket.parent.chmod(0o755)
    site.socket.chmod(0o666)
    try:
        assert as_user(NOBODY.pw_uid, NOBODY.pw_gid) in ("said b''", "ConnectionResetError", "BrokenPipeError")
    finally:
        site.socket.chmod(0o600)
        site.socket.parent.chmod(0o710)
    assert f"uid {NOBODY.pw_uid} is not the REST daemon's: disconnected" in site.text()


def test_05_a_helper_that_is_killed_is_a_clear_answer(site: Site) -> None:
    with ThreadPoolExecutor(1) as threads:
        reply = threads.submit(site.login, "pamhang")
        program, child = wait_for(site.world.hung, "pam_exec runs its program")
        assert site.pamd is not None
        for pid in (site.pamd.pid, child, program):
            proc = Path(f"/proc/{pid}")
            assert PASSWORD.encode() not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
        site.end(signal.SIGKILL)
        assert reply.result().status_code == 503 and AWAY in reply.result().text
    wait_for(lambda: not {state_of(child), state_of(program)} - {"", "Z"}, "both have ended with the daemon")
    assert site.login("nobody").status_code == 503
    site.start()
    assert site.login("nobody").status_code == 200
    assert site.end(signal.SIGTERM) == 0
    site.start()
    for text in (site.text(), site.rest.log(), site.cluster.logs()):
        assert PASSWORD not in text and "Traceback" not in text


def test_05_what_would_not_be_safe_does_not_start(site: Site, tmp_path: Path) -> None:
    """Its words, by `--check` and the start."""
    conf = tmp_path / "slurm.conf"
    service = site.world.folder / "pam.d" / "penstock"

    def refusal(text: str, *options: str) -> str:
        conf.write_text(text)
        words = site.world.argv(str(LAUNCHERS / "penstock"), "pamd", "--config", str(conf), *options)
        done = subprocess.run(words, capture_output=True, text=True, timeout=END_S, check=False)
        assert done.returncode == 78 and "Traceback" not in done.stderr, done.stderr
        return done.stderr

    good = site.cluster.slurm_conf.read_text()
    words = site.world.argv(str(LAUNCHERS / "penstock"), "pamd", "--config", str(site.cluster.slurm_conf), "--check")
    done = subprocess.run(words, capture_output=True, text=True, timeout=END_S, check=True)
    assert done.stderr == f"penstock pamd: {site.cluster.slurm_conf} and the PAM service penstock can be used\n"
    assert "PenstockPamUser is not set" in refusal(good.replace("PenstockPamUser=daemon", ""), "--check")
    assert "has no such user" in refusal(good.replace("PenstockPamUser=daemon", "PenstockPamUser=nosuch"), "--check")
    assert "AuthAltTypes=auth/jwt is not set" in refusal(good.replace("AuthAltTypes=auth/jwt", ""), "--check")
    assert "PenstockPamMinUid" in refusal(good + "PenstockPamMinUid=-1\n", "--check")
    assert "another penstock pamd listens here" in refusal(good + f"StateSaveLocation={site.cluster.home / 'ctld'}\n")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    elsewhere = good.replace(str(site.socket), str(open_to_all / "s"))
    assert "nobody else can write to" in refusal(elsewhere)
    service.chmod(0o666)
    assert "must be a file of root's" in refusal(good, "--check")
    service.chmod(0o644)
    service.rename(service.with_name("away"))
    assert "PAM has no service penstock" in refusal(good, "--check")
    service.with_name("away").rename(service)
