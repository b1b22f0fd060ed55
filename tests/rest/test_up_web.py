"""`penstock up --web`: a cluster of one's own, and a link that logs in once."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from livecluster import LAUNCHERS
from patience import ANSWER_S, START_S


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a name that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="pw-"))
    yield folder / "h"
    penstock(folder / "h", "down", "--purge")
    shutil.rmtree(folder)


def penstock(home: Path, *words: str) -> Any:
    environment = {**os.environ, "PENSTOCK_HOME": str(home)}
    argv = [str(LAUNCHERS / "penstock"), *words, "--json"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_link_logs_in_once_and_another_up_makes_another(home):
    found = penstock(home, "up", "--rest")
    assert found["started"] == ["ctld", "n1", "restd"] and "login_link" not in found
    found = penstock(home, "up", "--web")
    assert found["started"] == ["restd"]  # again, since it had no pages
    address, _, secret = found["login_link"].partition("/#login=")
    assert address == found["rest"]["address"] and address.startswith("http://127.0.0.1:")
    page = {"X-Penstock-Web": "none", "Origin": address}
    with httpx.Client(base_url=address, headers=page, timeout=ANSWER_S) as browser:
        assert browser.get("/").headers["content-type"].startswith("text/html")
        login = browser.post("/web/login", json={"secret": secret})
        browser.headers["X-Penstock-Web"] = login.json()["key"]
        assert browser.post("/web/login", json={"secret": secret}).status_code == 401
        assert [node["name"] for node in browser.get("/slurm/v0.0.46/nodes").json()["nodes"]] == ["n1"]
        again = penstock(home, "up", "--web")
        assert again["started"] == [] and again["rest"]["address"] == address and secret not in again["login_link"]
