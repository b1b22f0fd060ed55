"""Measures the web interface in a browser at a long queue: how long pages take to show, and tables to answer.

    python -m bench.webtable [--nodes 1000] [--jobs 102000] [--runs 5]

A controller with hollow nodes (bench/hollow.py) makes no full pass meanwhile: all jobs wait, each with a name of its own.
The browser is Debian's chromium without a window. A page's time is from its request to its content; a table's from the click
or the key to the first frame that has other rows. Needs playwright and chromium.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Page, TimeoutError, sync_playwright

from bench.fill import fill
from bench.livecluster import LiveSite, cluster
from bench.measure import CannotMeasure, free_port, wait_until
from penstock.config import load

LIMIT_S = 60.0
JWT = "AuthAltTypes=auth/jwt\n"
#: Does something on the page Jobs, and waits for a frame with another first row.
ACT: Final = """async ([kind, selector, value]) => {
    const row = () => document.querySelector(".grid tbody tr:not(.space)")?.textContent ?? "";
    const before = row();
    const target = document.querySelector(selector);
    const began = performance.now();
    if (kind === "click") target.click();
    else if (kind === "scroll") target.scrollTop = Number(value);
    else {
        target.value = value;
        target.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    for (;;) {
        await new Promise(requestAnimationFrame);
        if (row() !== "" && row() !== before) return performance.now() - began;
        if (performance.now() - began > 10000) return -1;
    }
}"""
NAME = ".grid thead th:nth-child(3) button"
SUBMITTED = ".grid thead th:nth-child(11) button"


class TableAction(NamedTuple):
    """What is done at a table of all jobs; `value` has a place for the number of the run."""

    title: str
    kind: str
    selector: str
    value: str = ""
    goes_on: bool = False  # at the table as the last action has left it


ACTIONS: Final = (
    TableAction("sorted by name", "click", NAME),
    TableAction("the other way round", "click", NAME, goes_on=True),
    TableAction("sorted by time of submission", "click", SUBMITTED),
    TableAction("scrolled to the middle", "scroll", ".grid", "{scroll}"),
    TableAction("a name is searched", "input", ".tools .search", "train-{number}"),
)


class TableSite:
    """A controller with hollow nodes in a thread of its own, and a REST daemon."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.site = LiveSite(folder, nodes)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._ready = threading.Event()
        self._end = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """The controller and its nodes."""
        self._ready.clear()
        self._end.clear()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        thread.start()
        try:
            if not self._ready.wait(LIMIT_S):
                raise CannotMeasure("the cluster did not start")
            yield
        finally:
            self._end.set()
            thread.join()

    async def _serve(self) -> None:
        async with cluster(self.site):
            self._ready.set()
            await asyncio.to_thread(self._end.wait)

    def environment(self) -> dict[str, str]:
        """Of commands of this cluster."""
        return {**os.environ, "PENSTOCK_CLUSTER": str(self.site.folder / "state" / "cluster.json")}

    def token(self) -> str:
        """A token of the user."""
        words = [str(Path(sys.executable).parent / "scontrol"), "token", "lifespan=36000"]
        done = subprocess.run(words, env=self.environment(), capture_output=True, text=True, check=True)
        return done.stdout.strip().partition("=")[2]

    @contextmanager
    def restd(self) -> Iterator[None]:
        """The REST daemon, with the pages."""
        log = self.site.folder / "restd.log"
        words = [str(Path(sys.executable).parent / "penstock"), "restd", "--web", "--allow-privileged", "--listen"]
        with log.open("wb") as output:
            child = subprocess.Popen(
                [*words, self.url.removeprefix("http://")], env=self.environment(), stdout=output, stderr=output
            )
        try:
            wait_until(lambda: "listening on" in log.read_text(), "the REST daemon listens", LIMIT_S)
            yield
        finally:
            child.terminate()
            child.wait()


def shown_ms(page: Page, url: str, selector: str) -> float:
    """From the request of a page to its content, in a tab that has no page yet."""
    page.goto("about:blank")
    page.goto(url, wait_until="commit")
    try:
        page.wait_for_selector(selector, timeout=LIMIT_S * 1000)
    except TimeoutError as error:
        raise CannotMeasure(f"{url} has no {selector}: {page.inner_text('body')[:500]}") from error
    found: float = page.evaluate("performance.now()")
    return found


def measure(page: Page, site: TableSite, jobs: int, runs: int) -> dict[str, list[float]]:
    """Milliseconds of each run."""
    page.goto(site.url)
    page.get_by_label("Token").fill(site.token())
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Overview").wait_for(timeout=LIMIT_S * 1000)
    found: dict[str, list[float]] = {}
    for run in range(runs):
        for title, where, selector in (
            ("Overview", "", ".tiles"), ("Jobs", "jobs", ".grid tbody a"), ("Nodes", "nodes", ".grid tbody a"),
        ):  # fmt: skip
            found.setdefault(f"page {title}", []).append(shown_ms(page, f"{site.url}/#/{where}", selector))
        for action in ACTIONS:
            if not action.goes_on:
                page.goto("about:blank")
                page.goto(f"{site.url}/#/jobs")
                page.wait_for_selector(".grid tbody a")
            number = jobs - 1000 - 997 * run
            value = action.value.format(number=number, scroll=36 * (jobs // 2 + 1000 * run))
            took: float = page.evaluate(ACT, [action.kind, action.selector, value])
            if took < 0:
                print(f"{action.title}: nothing changed", file=sys.stderr)  # no job runs yet
                continue
            found.setdefault(action.title, []).append(took)
    return found


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.webtable", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=102_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no browser: Debian's chromium-headless-shell")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        site = TableSite(Path(folder), asked.nodes)
        write_conf = site.site.write_conf

        def with_tokens(interval_s: int) -> None:
            write_conf(interval_s)
            site.site.conf.write_text(site.site.conf.read_text() + JWT)

        site.site.write_conf = with_tokens  # type: ignore[method-assign]  # tokens, which bench/live.py does not need
        with site.running():
            pass
        fill(
            Path(folder) / "state" / "penstock.db", load(str(site.site.conf)).config, 100, asked.jobs, names=asked.jobs
        )
        with site.running(), site.restd(), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            found = measure(browser.new_page(), site, asked.jobs, asked.runs)
            browser.close()
    for title, times in found.items():
        rest = f"{statistics.median(times[1:]):.0f}" if len(times) > 1 else "-"
        print(f"{title:30} first {times[0]:6.0f} ms, then {rest} ms (median)")


if __name__ == "__main__":
    main()
