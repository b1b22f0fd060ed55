"""Sessions of a live REST daemon: their kinds, a session that is ready, a browser in it.

with live_sessions() as rest: session = enter(rest, start(rest))
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import h11
import wsproto
import yaml
from livecluster import ROOT, ClusterConf, LiveCluster
from liverest import JWT, PREFIX, LiveRest
from sessionclient import SessionClient

from rest.interactive.kinds import read_kinds, script_of

OWN = "/penstock/v1"
IS_ROOT = os.geteuid() == 0
#: Whose sessions they are: the profile of root is the machine's.
USER = "nobody" if IS_ROOT else ""
#: Other users than root may not enter the folder of the tests' interpreter.
PYTHON = "/usr/bin/python3" if IS_ROOT else sys.executable
#: What a session's programs import.
PARTS = (
    "nodedaemon/__init__.py",
    "nodedaemon/session",
    "penstock/__init__.py",
    "penstock/values/__init__.py",
    "penstock/values/sessions.py",
)


def kinds(folder: Path, more: Sequence[Mapping[str, object]] = ()) -> str:
    """The kinds of these tests, and more. `folder`: with what they run."""
    server = ["{python}", str(folder / "sessionserver.py")]
    table = [
        {"kind": "shell", "title": "Terminal", "command": ["{python}", "-m", "nodedaemon.session.terminal", "/bin/sh"],
         "is_terminal": True, "idle_minutes": 0},
        {"kind": "program", "title": "Program", "command": [*server, str(folder / "secret.sock")]},
        {"kind": "stripped", "title": "Stripped", "command": server, "strips_base": True},
        {"kind": "missing", "title": "Missing", "command": ["no-such-program", "{socket}"]},
    ]  # fmt: skip
    return yaml.safe_dump({"kinds": [*table, *more]})


def lay_out(folder: Path, more: Sequence[Mapping[str, object]] = ()) -> None:
    """Copies what sessions run to where all users may read it, and writes their kinds."""
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, folder / part)
    for module in (h11, wsproto):
        shutil.copytree(Path(module.__path__[0]), folder / module.__name__)
    shutil.copy(ROOT / "tests/support/sessionserver.py", folder)
    (folder / "kinds.yaml").write_text(kinds(folder, more))


@contextmanager
def live_sessions(
    conf: ClusterConf = JWT, *options: str, more: Sequence[Mapping[str, object]] = ()
) -> Iterator[LiveRest]:
    """A cluster whose REST daemon has an origin for sessions, of these kinds, too."""
    with LiveCluster(1, conf) as cluster:
        folder = cluster.home / "parts"
        folder.mkdir()
        lay_out(folder, more)
        own = ("--sessions-listen", "127.0.0.1:0", "--sessions-file", str(folder / "kinds.yaml"))
        rest = LiveRest(cluster, *own, *options)
        rest.start()
        try:
            yield rest
        finally:
            print(cluster.logs())


def origin_of(rest: LiveRest) -> str:
    """The origin of sessions."""
    return str(re.findall(r"sessions at (\S+)", rest.log())[-1])


def sessions(rest: LiveRest, user: str = USER) -> dict[int, dict[str, object]]:
    """The user's sessions, by job."""
    with rest.as_user(user) as client:
        return {one["job_id"]: one for one in client.get(f"{OWN}/sessions").json()["sessions"]}


def queue(rest: LiveRest, kind: str, user: str = USER, minutes: int = 480, idle_s: int = 0) -> int:
    """A session of this user; its job. It is made as POST /sessions makes one, with an interpreter that the user may run."""
    folder = rest.cluster.work / f"of-{user}"
    if not folder.exists():
        folder.mkdir()
        folder.chmod(0o777)
    parts = rest.cluster.home / "parts"
    chosen = next(one for one in read_kinds(str(parts / "kinds.yaml")) if one.kind == kind)
    script = script_of(chosen, 0).replace('"$PENSTOCK_SESSION_PYTHON" -Im', f"env PYTHONPATH={parts} {PYTHON} -m")
    script = script.replace("--idle-s 0", f"--idle-s {idle_s}").replace("bash -l", "bash")  # no profile of the machine
    job = {
        "name": "session", "extra": f"penstock-session={kind}", "time_limit": minutes, "script": script,
        "environment": ["PATH=/usr/bin:/bin", f"PENSTOCK_SESSION={kind}"], "current_working_directory": str(folder),
    }  # fmt: skip
    with rest.as_user(user) as client:
        reply = client.post(f"{PREFIX}/job/submit", json={"job": job})
        assert reply.status_code == 200, reply.text
        return int(reply.json()["job_id"])


def start(rest: LiveRest, kind: str = "shell", user: str = USER, minutes: int = 480) -> int:
    """The same, when it is ready."""
    job = queue(rest, kind, user, minutes)
    rest.cluster.wait(lambda: sessions(rest, user)[job]["is_ready"] is True, "the session is ready")
    return job


def ticket(rest: LiveRest, job: int, user: str = USER) -> str:
    """The one-time address of a session."""
    with rest.as_user(user) as client:
        reply = client.post(f"{OWN}/sessions/{job}/enter")
        assert reply.status_code == 200, reply.text
        return str(reply.json()["url"])


def enter(rest: LiveRest, job: int, user: str = USER) -> SessionClient:
    """A browser in a session."""
    return SessionClient.enter(origin_of(rest), ticket(rest, job, user))
