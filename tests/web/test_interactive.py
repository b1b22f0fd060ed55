"""The page Sessions and the terminal in a real browser: a session is opened in a tab, typed into, refused to others, stopped."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from liverest import JWT, LiveRest
from livesessions import USER, live_sessions, origin_of, queue, sessions, start
from webpages import CHROMIUM, WebPages, check_looks, save_picture, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")


#: A terminal that starts when its folder has the file `gate`.
GATED = {
    "kind": "gated", "title": "Gated", "is_terminal": True, "idle_minutes": 0,
    "command": ["/bin/sh", "-c", 'until [ -e gate ]; do sleep 0.05; done; exec "$@"', "sh",
                "{python}", "-m", "nodedaemon.session.terminal", "/bin/sh"],
}  # fmt: skip


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    with live_sessions(JWT, "--web", more=[GATED]) as rest:
        yield rest


def output(tab: "Page") -> str:
    """What the terminal shows."""
    return tab.locator(".xterm-rows").inner_text()


def test_a_session_is_started_opened_and_stopped(web: WebPages) -> None:
    rest = web.rest
    web.origins.append(origin_of(rest))
    page = web.opened("sessions", "Sessions", USER)
    wait_for_text(page, "You have no session.")
    # Its clock stands still, so that it never asks for everything again: that a program has started makes no event.
    page.clock.set_fixed_time(datetime.now(UTC))
    check_looks(page, "sessions-empty")
    page.get_by_label("Kind").select_option("missing")
    page.get_by_label("CPUs").fill("many")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("alert").wait_for()
    page.get_by_label("CPUs").fill("1")
    page.get_by_label("Working directory").fill(str(rest.cluster.work))
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("is queued.").wait_for()
    job = start(rest)
    waiting = queue(rest, "gated", minutes=60)
    with page.context.expect_page() as opened:
        page.get_by_role("button", name=f"Open session {job}").click()
    tab = opened.value
    tab.on("pageerror", lambda error: web.problems.append(str(error)))
    tab.get_by_text(f"Job {job}", exact=True).wait_for()
    assert tab.url == f"{origin_of(rest)}/-/terminal?job={job}" and tab.evaluate("window.opener") is None
    tab.keyboard.type("echo '<b>'$((6*7))$SLURM_JOB_ID; echo -e '\\033]0;x\\007done'\n")
    rest.cluster.wait(lambda: f"<b>42{job}" in output(tab) and "done" in output(tab), "the output")
    assert tab.locator(".xterm b").count() == 0 and tab.evaluate("document.cookie") == ""
    tab.reload()
    rest.cluster.wait(lambda: f"<b>42{job}" in output(tab), "the output again")
    save_picture(tab, "terminal")
    page.get_by_text("starting").wait_for()
    (rest.cluster.work / f"of-{USER}" / "gate").touch()
    page.get_by_role("button", name=f"Open session {waiting}").wait_for()
    check_looks(page, "sessions")
    page.get_by_role("button", name=f"Extend session {job}").click()
    page.get_by_label("Minutes in all, from its start").fill("30")
    page.get_by_role("button", name="Change", exact=True).click()
    rest.cluster.wait(lambda: sessions(rest)[job]["time_limit_s"] == 1800, "the time limit")
    page.get_by_role("button", name=f"Stop session {job}").click()
    page.get_by_role("button", name="Stop the session").click()
    rest.cluster.wait_state(job, "CANCELLED")
    tab.get_by_role("button", name="Connect again").wait_for()
    tab.close()
