"""A tab that is open for long: what it holds does not grow with what happens. The day of a tab is played with a clock that is
moved on, a stream of changes that is written here, and answers that are others each time.

`make test-full` plays a day at a cluster of 1,000 nodes, and prints the tab's memory and processor time.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page
    from webpages import WebPages

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
SLEEP = ("--wrap", "sleep 600")
#: Instead of the daemon: what it answered first, with other values each time, and `COPIES` nodes for each of the cluster's.
DAEMON = """(() => {
    const real = window.fetch, kept = new Map(), copies = COPIES;
    const idle = window.idle = { round: 0, answers: 0, underway: 0, gate: null };
    idle.hold = () => { idle.gate = new Promise((resolve) => { idle.release = resolve; }); };
    idle.hasStream = new Promise((resolve) => { idle.streamBegan = resolve; });
    const copied = (list, ...names) => list.flatMap((one) => Array.from({ length: copies }, (_, at) =>
        ({ ...one, ...Object.fromEntries(names.map((name) => [name, one[name] + "-" + at])) })));
    const reading = ({ node, uuid, index }) => ({ node, uuid, index, at_us: 1, utilization_percent: 0, memory_used_mb: 0, power_w: 0,
        temperature_c: 0, ecc_corrected: 0, ecc_uncorrected: 0 });
    const changed = (data) => {
        for (const job of data.jobs ?? []) job.name = `round ${idle.round}`;
        for (const one of data.queue ?? []) one.jobs += idle.round % 7;
        for (const one of data.readings ?? []) for (const name of ["utilization_percent", "power_w", "temperature_c"]) one[name] = (one.index + idle.round) % 101;
        for (const one of data.nodes ?? []) one.alloc_cpus = idle.round % (one.cpus + 1);
        return data;
    };
    const first = async (path, init) => {
        const answer = await real(path, init);
        const data = await answer.json();  // pretended GPUs have no readings
        if (Array.isArray(data.nodes)) data.nodes = copied(data.nodes, "name");
        if (Array.isArray(data.readings)) data.readings = (await (await real(path.replace("/readings", ""), init)).json()).gpus.map(reading);
        for (const name of ["gpus", "readings"]) if (Array.isArray(data[name])) data[name] = copied(data[name], "node", "uuid");
        return JSON.stringify(data);
    };
    window.fetch = async (path, init) => {
        if (path.endsWith("/events")) {
            const start = (stream) => {
                idle.push = (text) => stream.enqueue(new TextEncoder().encode(text));
                idle.streamBegan();
            };
            return new Response(new ReadableStream({ start }));
        }
        if (init?.method !== "GET" || !/^[/](slurm|penstock)/.test(path)) return real(path, init);
        idle.answers++;
        await idle.gate;
        idle.underway++;
        try {
            if (!kept.has(path)) kept.set(path, await first(path, init));
        } finally {
            idle.underway--;
        }
        return new Response(JSON.stringify(changed(JSON.parse(kept.get(path)))), { headers: { "Content-Type": "application/json" } });
    };
})()"""
#: A job that began, and one that ended.
HAPPENS = """async () => {
    idle.round++;
    const job = { kind: "job", gone: false, nodes: "n1", start_time: 5, attempt: 0, job_id: idle.round, array_job_id: 0, user_name: "root" };
    idle.push(`event: job\\ndata: ${JSON.stringify(job)}\\n\\n`);
    for (const turn of [1, 2]) {  // so that it is read before the clock moves on
        await new Promise((resolve) => {
            const channel = new MessageChannel();
            channel.port1.onmessage = resolve;
            channel.port2.postMessage(turn);
        });
    }
}"""
#: A job every ten seconds.
ROUND_MS = 10_000
#: Over a day, one every minute.
DAY_ROUND_MS = 60_000
DAY_ROUNDS = 24 * 60


class Held(NamedTuple):
    """What a tab holds, after the collector of garbage has run."""

    heap_mb: float
    nodes: float
    listeners: float


def renderer_cpu_s(web: "WebPages") -> float:
    """Processor time so far of the processes that draw pages."""
    found = web.browser_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(one["cpuTime"] for one in found if one["type"] == "renderer")


def private_mb(web: "WebPages") -> float:
    """Memory of the process that draws the page, without what it shares with others of the browser."""
    found = web.browser_session().send("SystemInfo.getProcessInfo")["processInfo"]
    texts = [Path(f"/proc/{one['id']}/smaps_rollup").read_text() for one in found if one["type"] == "renderer"]
    sizes = [sum(int(size) for size in re.findall(r"^Private_\w+: +(\d+) kB", text, re.M)) for text in texts]
    return max(sizes) / 1024


class IdleTab:
    """A tab whose time this file moves on."""

    def __init__(self, web: "WebPages", copies: int) -> None:
        self.page: Page = web.login()
        self._web = web
        self._cdp: CDPSession = self.page.context.new_cdp_session(self.page)
        self._cdp.send("Performance.enable")
        self.page.add_init_script(DAEMON.replace("COPIES", str(copies)))
        self.page.clock.install()
        self.page.reload()

    def open(self, where: str, heading: str) -> None:
        """Goes to a page, and waits for its heading and for the stream."""
        self._web.open(self.page, where, heading)
        self.page.evaluate("idle.hasStream")

    def play(self, rounds: int, round_ms: int = ROUND_MS) -> int:
        """Something happens in each round; returns how often the page has asked."""
        before = self.page.evaluate("idle.answers")
        for _ in range(rounds):
            self.page.evaluate(HAPPENS)
            self.page.clock.run_for(round_ms)
        answers: int = self.page.evaluate("idle.answers") - before
        return answers

    def held(self) -> Held:
        """What the tab holds when all that it asked for is there: the daemon takes its own time, which is not the clock's."""
        self._web.rest.cluster.wait(lambda: self.page.evaluate("idle.underway === 0"), "its answers are there")
        self.play(1)
        for _ in range(2):  # what the first one finalises is freed by the second
            self._cdp.send("HeapProfiler.collectGarbage")
        metrics = {one["name"]: one["value"] for one in self._cdp.send("Performance.getMetrics")["metrics"]}
        return Held(metrics["JSHeapUsedSize"] / 2**20, metrics["Nodes"], metrics["JSEventListeners"])


@pytest.fixture
def jobs(rest) -> dict[str, int]:
    """One that runs, and one that waits."""
    cluster = rest.cluster
    found = {
        "runs": cluster.sbatch("-J", "runs", "--gpus=6", *SLEEP),
        "waits": cluster.sbatch("-J", "waits", "-N2", "--exclusive", *SLEEP),
    }
    cluster.wait_state(found["runs"], "RUNNING")
    return found


def test_what_a_tab_holds_does_not_grow(web, jobs):
    """Each page of the most looked at, while jobs begin and end; nothing that an answer brought stays."""
    tab = IdleTab(web, copies=20)
    for where, heading in (("", "Overview"), ("jobs", "Jobs"), (f"jobs/{jobs['waits']}", ""), ("nodes", "Nodes")):
        tab.open(where, heading)
        tab.play(40)
        before = tab.held()
        assert tab.play(120) >= 120, f"the page {heading or where} asks after each event"
        after = tab.held()
        print(heading or where, before, after)
        assert after.heap_mb < before.heap_mb + 0.5 and after.nodes <= before.nodes * 1.05, (heading, before, after)
        assert after.listeners <= before.listeners * 1.05, (heading, before, after)


def test_what_happens_while_an_answer_is_on_its_way_is_asked_for(web, jobs):
    """That answer may be of before: it is asked for once more, when it is there."""
    tab = IdleTab(web, copies=1)
    tab.open("jobs", "Jobs")
    tab.play(1)
    tab.page.clock.pause_at(tab.page.evaluate("Date.now() / 1000 + 1"))  # nothing is asked because time passes
    tab.page.evaluate("idle.hold()")
    assert (tab.play(1), tab.play(1)) == (1, 0), "one question at a time"
    answers = tab.page.evaluate("idle.answers")
    tab.page.evaluate("idle.release()")
    web.rest.cluster.wait(lambda: tab.page.evaluate("idle.answers") > answers, "it asks again")
    tab.page.clock.resume()  # it is the clock of all pages of this user


@pytest.mark.slow
def test_a_day_of_a_tab(web, jobs):
    """With a job every minute and 1,000 nodes of eight GPUs, which do something else each time: how much memory the tab has at its
    end, and how much processor time it took."""
    tab = IdleTab(web, copies=500)
    tab.open("", "Overview")
    tab.play(50)
    before, began_s = tab.held(), renderer_cpu_s(web)
    answers = tab.play(DAY_ROUNDS, DAY_ROUND_MS)
    used_s, after = renderer_cpu_s(web) - began_s, tab.held()
    print(f"{answers} answers; {before} -> {after}; {private_mb(web):.0f} MB; {used_s:.1f} s of a day")
    assert after.heap_mb < before.heap_mb + 2 and private_mb(web) < 150
    assert used_s < 0.01 * 86_400, "1 % of a core; it took 0.4 %"
