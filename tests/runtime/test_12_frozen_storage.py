"""A controller that starts on storage that neither answers nor fails: it says what it waits for, and ends with 75."""

import asyncio
import os
import queue
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest
from patience import ANSWER_S
from stalldisk import StalledDisk

from penstock.startwatch import StartWatch
from tests.rpc.clusterkit import Process, Site

ROOT = Path(__file__).resolve().parents[2]
#: The controller with other limits.
RUN = """
import functools, sys
import ctld.main
ctld.main.StartWatch = functools.partial(ctld.main.StartWatch, first_s=0.4, limit_s=1.2)
sys.exit(ctld.main.main(["-f", sys.argv[1]]))
"""


def test_a_start_that_waits_says_so_and_ends():
    said: queue.Queue[str] = queue.Queue()
    ended: queue.Queue[int] = queue.Queue()
    with StartWatch(said.put, first_s=0.1, limit_s=0.4, end=ended.put) as watch:
        watch.at("/srv/state")
        assert said.get(timeout=ANSWER_S).startswith("warning: the start has waited for /srv/state for ")
        line = said.get(timeout=ANSWER_S)
        while line.startswith("warning: "):  # another thread of the tests has worked meanwhile: the wait counts anew
            line = said.get(timeout=ANSWER_S)
        assert line.startswith("error: /srv/state: its storage has not answered for ")
        assert ended.get(timeout=ANSWER_S) == 75


def test_a_start_that_works_or_goes_on_is_left_alone():
    said: list[str] = []
    ended: list[int] = []
    with StartWatch(said.append, first_s=0.2, limit_s=0.4, end=ended.append) as watch:
        watch.at("/srv/state/penstock.db")
        until = time.process_time() + 1.0
        while time.process_time() < until:  # a long migration
            pass
        assert not ended
        watch.over()
        watch.over()
    assert not ended


@pytest.mark.parametrize("is_new", [True, False], ids=["a new cluster", "a cluster that exists"])
def test_a_controller_on_frozen_storage(tmp_path, is_new):
    site = Site(tmp_path)
    if not is_new:
        first = Process(site)
        try:
            asyncio.run(first.up())
        finally:
            first.stop()
    disk = StalledDisk(tmp_path / "gate")
    # Byte code would be written before anything watches.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **disk.env()}
    words = [sys.executable, "-P", "-c", RUN, str(site.conf)]
    with disk.still():
        done = subprocess.run(
            words, cwd=ROOT, env=cast(dict[str, str], environment), capture_output=True, text=True, timeout=ANSWER_S
        )
    assert done.returncode == 75, done.stderr
    warning, error = (line for line in done.stderr.splitlines() if "storage" in line)
    assert warning.startswith(f"penstock ctld: warning: the start has waited for {site.state}")
    assert error.startswith(f"penstock ctld: error: {site.state}") and "not answered" in error
    again = Process(site)
    try:
        asyncio.run(again.up())
    finally:
        assert again.stop() == 0
