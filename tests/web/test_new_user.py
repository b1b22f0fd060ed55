"""What a new user does, by clicks alone: from `penstock up --web` to a GPU job that is submitted, watched, explained and cancelled."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from livecluster import LAUNCHERS
from patience import ANSWER_S, START_S
from playwright.sync_api import sync_playwright
from webpages import ARGUMENTS, CHROMIUM, save_picture, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
LOOP = "\nfor step in $(seq 600); do echo step $step; sleep 1; done\n"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a name that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="pw-"))
    yield folder / "h"
    penstock(folder / "h", "down", "--purge")
    shutil.rmtree(folder)


def penstock(home: Path, *words: str) -> Any:
    environment = {**os.environ, "PENSTOCK_HOME": str(home), "HOME": str(home.parent)}
    argv = [str(LAUNCHERS / "penstock"), *words, "--json"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def page(home: Path) -> Iterator["Page"]:
    """A browser that was given the link."""
    link = penstock(home, "up", "--web", "--cpus-per-node=4", "--gpus-per-node=2:h200")["login_link"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = browser.new_page(reduced_motion="reduce")
        page.set_default_timeout(ANSWER_S * 1000)
        page.goto(link)
        yield page
        browser.close()


def card(page: "Page", title: str) -> Any:
    return page.locator("section.card").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_from_up_to_a_gpu_job_that_is_explained_and_cancelled(page, home):
    page.get_by_role("heading", name="Overview").wait_for()
    assert violations(page) == []
    card(page, "My jobs").get_by_role("link", name="Submit one").click()
    # A GPU by its type, and a program; the answer names what the job would have.
    by_type = page.get_by_role("group", name="By type of GPU")
    by_type.get_by_role("button", name="1 h200", exact=True).click()
    script = page.get_by_label("Script", exact=True)
    script.fill(script.input_value().replace("hostname", "") + LOOP)
    page.get_by_label("Working directory").fill(str(home.parent))
    page.get_by_text(re.compile("^Now: 1 h200, 1 CPU on n1")).wait_for()
    free = page.get_by_role("group", name="What is free now").get_by_role("button").all_inner_texts()
    assert len(free) == len(set(free)) > 0
    save_picture(page, "new-user-submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    # Watched: it runs, has its GPU, and writes.
    page.locator("header.page .chip").get_by_text("Running").wait_for()
    card(page, "Nodes and GPUs").get_by_text("GPU 0").wait_for()
    page.get_by_text("step 2", exact=True).wait_for()
    card(page, "Time line").get_by_text(re.compile("^by ")).wait_for()
    assert card(page, "Details").get_by_text("1 GPU (1 h200)").is_visible()
    save_picture(page, "new-user-runs")
    # Explained: one that wants both GPUs waits, and the page says what for.
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Submit").click()
    by_type.get_by_role("button", name="a node with 2 h200").click()
    page.get_by_text(re.compile("^in .*: 2 h200 per node, 1 CPU on n1")).wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    why = card(page, "Why it waits")
    why.get_by_text("Planned start:").wait_for()
    why.get_by_text("none has room now").wait_for()
    save_picture(page, "new-user-waits")
    # Cancelled: the one that waits never started, and its page does not pretend so.
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the job").click()
    page.locator("header.page .chip").get_by_text("Cancelled").wait_for()
    card(page, "Time line").get_by_text(re.compile("^Cancelled")).wait_for()
    assert card(page, "Output").count() == 0
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    page.get_by_role("row").filter(has_text="Running").get_by_role("link").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the job").click()
    page.locator("header.page .chip").get_by_text("Cancelled").wait_for()
    assert card(page, "Output").get_by_text("step 2", exact=True).is_visible()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Overview").click()
    page.locator(".tiles").get_by_text("0 running").wait_for()
    save_picture(page, "new-user-end")
