"""Measures the web interface in a browser at a long queue: how long pages take to show, tables to answer, and changes to be seen.

    python -m bench.webtable [--nodes 1000] [--jobs 100000] [--runs 3]

A controller, its hollow nodes (bench/hollow.py), a REST daemon, and Debian's chromium without a window. Two jobs run on each
node, `--jobs` wait behind them, each with a name of its own; no full pass is made meanwhile. Measured are, from the last of what
the user does to the frame that shows its result:

    page ...      from the request of a page to its content, in a tab that has no page yet; also in a browser without a cache
    table ...     from the click or the key to the first frame that has other rows
    typed ...     from the last key of a name, a key each TYPING_MS, to the frame with the job
    event ...     from the end of `sbatch` or `scancel` to the frame that shows the change

and the processor time that the controller, the REST daemon and the page's thread have used for it, which says more than the time
where other programs run. Needs playwright and chromium.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from playwright.async_api import CDPSession, Page, async_playwright

from bench.fill import fill_busy
from bench.livecluster import NO_PASSES_S, LiveSite, cluster, command_nodes, process
from bench.local import BIN, LEFT_OUT
from bench.measure import CannotMeasure, cpu_s, free_port
from penstock.config import load

LIMIT_S = 60.0
#: Two jobs run on each node.
RUNNING_A_NODE = 2
#: A controller that uses less than this part of a processor for a second has nothing left to do but heartbeats.
IDLE_CORES = 0.15
SETTLE_LIMIT_S = 120.0
JWT = "AuthAltTypes=auth/jwt\n"
#: Between two keys of who types fast.
TYPING_MS = 80
#: Gives the time at which a condition holds in a frame, ms of the page's clock, or -1 after 10 s.
UNTIL: Final = """
    const until = async (holds) => {
        const limit = performance.now() + 10000;
        while (!holds()) {
            if (performance.now() > limit) return -1;
            await new Promise(requestAnimationFrame);
        }
        return performance.now();
    };
    const row = () => document.querySelector(".grid tbody tr:not(.space)")?.textContent ?? "";
"""
SHOWN: Final = f"async (selector) => {{ {UNTIL} return until(() => document.querySelector(selector)); }}"
#: Does something on the page Jobs, and waits for another first row. "show" is to tick the column of that title.
ACT: Final = f"""async ([kind, selector, value]) => {{
    {UNTIL}
    const before = row();
    const shown = (one) => one.textContent.trim() === value;
    const found = [...document.querySelectorAll(selector)];
    const target = kind === "show" ? found.find(shown).querySelector("input") : found[0];
    const began = performance.now();
    if (kind === "show") target.click();
    else if (kind === "click") target.click();
    else if (kind === "scroll") target.scrollTop = Number(value);
    else {{
        target.value = value;
        target.dispatchEvent(new Event(kind, {{ bubbles: true }}));
    }}
    return await until(() => row() !== "" && row() !== before) - began;
}}"""
#: Types a text, and waits for a first row that has it.
TYPE: Final = f"""async ([selector, text, everyMs]) => {{
    {UNTIL}
    const target = document.querySelector(selector);
    let began = 0;
    for (let end = 1; end <= text.length; end += 1) {{
        target.value = text.slice(0, end);
        began = performance.now();
        target.dispatchEvent(new Event("input", {{ bubbles: true }}));
        if (end < text.length) await new Promise((resume) => setTimeout(resume, everyMs));
    }}
    return await until(() => row().includes(text)) - began;
}}"""
#: Notes the time of the frame that shows a row with all these texts, ms since 1970.
AWAIT: Final = f"""([selector, texts]) => {{
    {UNTIL}
    const has = (one) => texts.every((text) => one.textContent.includes(text));
    const holds = () => [...document.querySelectorAll(selector)].some(has);
    globalThis.seenAt = until(holds).then((at) => (at < 0 ? -1 : Date.now()));
}}"""
SEARCH = ".tools .search"
NAME = ".grid thead th:nth-child(3) button"
SUBMITTED = ".grid thead th:nth-child(11) button"
COLUMNS = ".menu-box label"


class TableAction(NamedTuple):
    """What is done at a table of all jobs; `value` has a place for the number of the run."""

    title: str
    kind: str
    selector: str
    value: str = ""
    goes_on: bool = False  # at the table as the last action has left it


ACTIONS: Final = (
    TableAction("table sorted by name", "click", NAME),
    TableAction("table the other way round", "click", NAME, goes_on=True),
    TableAction("table sorted by submission", "click", SUBMITTED),
    TableAction("table scrolled to the middle", "scroll", ".grid", "{scroll}"),
    TableAction("table state RUNNING", "change", ".tools select", "RUNNING"),
    TableAction("table column Priority shown", "show", COLUMNS, "Priority"),
    TableAction("table column Resources shown", "show", COLUMNS, "Resources"),
    TableAction("table a name pasted", "input", SEARCH, "train-{number}"),
)
PAGES: Final = (
    ("page Overview", "", ".tiles"),
    ("page Jobs", "jobs", ".grid tbody a"),
    ("page Nodes", "nodes", ".grid tbody a"),
)


class Taken(NamedTuple):
    """What one thing took, in ms: the time, and the processor time of who worked for it."""

    wall: float
    controller: float
    restd: float
    page: float


class Parts(NamedTuple):
    """Who works for the page."""

    controller: int
    restd: int
    session: CDPSession


class TableSite:
    """The cluster, and its REST daemon."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.live = LiveSite(folder, nodes, JWT, has_gpus=True)
        self.address = f"127.0.0.1:{free_port()}"
        state = folder / "state" / "cluster.json"
        self.env = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        self.env |= {"PENSTOCK_CLUSTER": str(state), "PENSTOCK_COMMAND_SERVER_IDLE_S": "20"}

    def fill(self, jobs: int) -> None:
        """Writes slurm.conf and the database."""
        self.live.write_conf(NO_PASSES_S)
        state = self.live.folder / "state"
        state.mkdir(mode=0o700)
        fill_busy(state / "penstock.db", load(str(self.live.conf)).config, jobs)

    async def command(self, name: str, *words: str) -> str:
        """The output of a command."""
        child = await asyncio.create_subprocess_exec(
            str(BIN / name), *words, env=self.env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await child.communicate()
        if child.returncode:
            raise CannotMeasure(f"{name} {' '.join(words)}: {err.decode()[-500:]}")
        return out.decode().strip()

    @asynccontextmanager
    async def restd(self) -> AsyncIterator[int]:
        """The REST daemon with the pages; its pid."""
        log = self.live.folder / "restd.log"
        words = ("-m", "rest.main", "--web", "--allow-privileged", "--listen", self.address)
        async with process(*words, log=log, env=self.env) as child:
            await _until(lambda: _said(log, "listening on"), "the REST daemon listens", LIMIT_S)
            yield child.pid


async def _until(true: Callable[[], bool], what: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            raise CannotMeasure(f"{what}: not within {limit_s:g} s")
        await asyncio.sleep(0.05)


def _said(log: Path, text: str) -> bool:
    return log.exists() and text in log.read_text()


async def settle(controller: int, nodes: asyncio.subprocess.Process, running: int) -> None:
    """Waits until that many jobs run, and the controller has done what follows from their starts."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline:
        before = cpu_s(controller)
        await asyncio.sleep(1.0)
        begun = (await command_nodes(nodes, "stats"))["running"]
        if begun >= running and cpu_s(controller) - before < IDLE_CORES:
            return
    raise CannotMeasure(f"{begun} of {running} jobs run, or the controller is not at rest, after {SETTLE_LIMIT_S:g} s")


def process_cpu_ms(pid: int) -> float:
    """Processor time of a process and all its threads so far: its clock, which counts finer than /proc does."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e6


class Stopwatch:
    """Measures what happens at a page."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.found: dict[str, list[Taken]] = {}

    async def _used(self, session: CDPSession) -> tuple[float, float, float]:
        metrics = (await session.send("Performance.getMetrics"))["metrics"]
        page = sum(one["value"] for one in metrics if one["name"] == "TaskDuration")
        return process_cpu_ms(self._parts.controller), process_cpu_ms(self._parts.restd), page * 1000

    async def measure(self, title: str, act: Callable[[], Awaitable[float]], session: CDPSession | None = None) -> None:
        """`act` gives its ms; a negative number: nothing was seen. `session`: of the page, if it is not the usual one."""
        session = session or self._parts.session
        before = await self._used(session)
        wall = await act()
        after = await self._used(session)
        if wall < 0:
            print(f"{title}: nothing changed", file=sys.stderr)
            return
        page = after[2] - before[2] if after[2] >= before[2] else after[2]  # a new page counts from its begin
        self.found.setdefault(title, []).append(Taken(wall, after[0] - before[0], after[1] - before[1], page))


async def fresh(page: Page, url: str, selector: str) -> float:
    """From the request of a page to its content, in a tab that has no page yet, ms."""
    await page.goto("about:blank")
    await page.goto(url, wait_until="commit")
    at: float = await page.evaluate(SHOWN, selector)
    return at


async def run_once(watch: Stopwatch, site: TableSite, page: Page, jobs: int, run: int) -> None:
    """Each thing once."""
    url = f"http://{site.address}/#/"
    for title, where, selector in PAGES:
        await watch.measure(title, partial(fresh, page, url + where, selector))
        await page.goto("about:blank")
        async with _new_browser(page) as (other, session):
            await watch.measure(f"{title}, nothing cached", partial(fresh, other, url + where, selector), session)
    number = jobs - 1000 - 997 * run
    for action in ACTIONS:
        if not action.goes_on:
            await fresh(page, f"{url}jobs", ".grid tbody a")
        value = action.value.format(number=number, scroll=36 * (jobs // 2 + 1000 * run))
        await watch.measure(action.title, partial(page.evaluate, ACT, [action.kind, action.selector, value]))
    await fresh(page, f"{url}jobs", ".grid tbody a")
    await watch.measure("typed a name", lambda: page.evaluate(TYPE, [SEARCH, f"train-{number - 7}", TYPING_MS]))
    await fresh(page, f"{url}jobs", ".grid tbody a")
    await _follow(watch, site, page, ".grid tbody tr", run)
    await fresh(page, url, ".tiles")
    await _follow(watch, site, page, ".list li", run)


@asynccontextmanager
async def _new_browser(page: Page) -> AsyncIterator[tuple[Page, CDPSession]]:
    """A page with the login of another one and nothing of its cache."""
    browser = page.context.browser
    assert browser is not None
    context = await browser.new_context(storage_state=await page.context.storage_state())
    other = await context.new_page()
    session = await context.new_cdp_session(other)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    yield other, session
    await context.close()


async def _follow(watch: Stopwatch, site: TableSite, page: Page, selector: str, run: int) -> None:
    """A job comes, and is cancelled."""
    where = "Jobs" if "grid" in selector else "Overview"
    await page.locator(".conn.live").wait_for(timeout=LIMIT_S * 1000)
    name = f"event-{where.lower()}-{run}"
    job = ""

    async def seen(texts: list[str], *words: str) -> float:
        nonlocal job
        await page.evaluate(AWAIT, [selector, texts])
        said = await site.command(*words)
        job = said if words[0] == "sbatch" else job
        done_ms = time.time() * 1000
        at_ms: float = await page.evaluate("globalThis.seenAt")
        return max(at_ms - done_ms, 0.0) if at_ms > 0 else -1.0  # it may be seen before the command has ended

    submit = ("sbatch", "--parsable", "-J", name, "-o", "/dev/null", "--exclusive", "--wrap", "sleep 600")
    await watch.measure(f"event {where}: a job comes", lambda: seen([name], *submit))
    if job:
        await watch.measure(f"event {where}: it is cancelled", lambda: seen([name, "Cancelled"], "scancel", job))


async def measure(site: TableSite, jobs: int, runs: int) -> dict[str, list[Taken]]:
    """All runs."""
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        raise CannotMeasure("no browser: Debian's chromium-headless-shell")
    async with cluster(site.live) as (controller, nodes), site.restd() as restd, async_playwright() as playwright:
        await settle(controller.pid, nodes, RUNNING_A_NODE * site.live.nodes)
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page()
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        watch = Stopwatch(Parts(controller.pid, restd, session))
        await page.goto(f"http://{site.address}/")
        token = (await site.command("scontrol", "token", "lifespan=36000")).partition("=")[2]
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("heading", name="Overview").wait_for(timeout=LIMIT_S * 1000)
        for run in range(runs):
            await run_once(watch, site, page, jobs, run)
        await browser.close()
    return watch.found


class FirstAndLater(NamedTuple):
    """The first time, and the medians of the others."""

    first: Taken
    then: Taken


def measured(nodes: int, jobs: int, runs: int) -> dict[str, FirstAndLater]:
    """A cluster in a folder of its own; raises CannotMeasure."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        site = TableSite(Path(folder), nodes)
        site.fill(jobs)
        found = asyncio.run(measure(site, jobs, runs))
    return {
        title: FirstAndLater(times[0], Taken(*map(statistics.median, zip(*(times[1:] or times), strict=True))))
        for title, times in found.items()
    }


def show(found: dict[str, FirstAndLater]) -> None:
    """A table."""
    print(f"{'':34} {'first time: ms, of processor time':>38} {'then':>38}")
    print(f"{'':34}" + f" {'ms':>8} {'controller':>11} {'restd':>8} {'page':>8}" * 2)
    for title, figures in found.items():
        print(f"{title:34}" + "".join(f" {a:8.0f} {b:11.1f} {c:8.1f} {d:8.1f}" for a, b, c, d in figures))


def main() -> int:
    """From the command line; 0 when all was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.webtable", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    try:
        show(measured(asked.nodes, asked.jobs, asked.runs))
    except CannotMeasure as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
