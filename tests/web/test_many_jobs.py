"""The jobs table at 100,000 waiting jobs in a real browser: scroll, search, sort, addresses, changes, a lost connection.

Their rows are written into the database before the controller starts (bench/fill.py), held, so that no pass plans them.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from livecluster import CTLD, ClusterConf, LiveCluster
from liverest import RESTD, LiveRest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, WebPages, check_looks, wait_for_text

from bench.fill import fill_waiting
from penstock.config import load

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Request

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
JOBS = 100_000
START_US = 1_700_000_000_000_000
ROW_PX = 36
#: Rows in the document: those in sight, and some around them.
ROWS_MAX = 100
#: How many requests of the table there are, in all and at a time; one that is given up is over.
COUNT_REQUESTS = """() => {
    const asked = { now: 0, most: 0, all: 0 };
    const fetched = globalThis.fetch;
    globalThis.asked = asked;
    globalThis.fetch = async (path, options) => {
        if (!/jobs.*first=/.test(path)) return fetched(path, options);
        let isOver = false;
        const end = () => {
            asked.now -= isOver ? 0 : 1;
            isOver = true;
        };
        options.signal.addEventListener("abort", end);
        asked.all += 1;
        asked.now += 1;
        asked.most = Math.max(asked.most, asked.now);
        try {
            return await fetched(path, options);
        } finally {
            end();
        }
    };
}"""

#: Clicks at something; gives how many rows the table has when its first one is another, and how many are in sight.
ROWS_AT_FIRST = """(target) => new Promise((resolve) => {
    const body = document.querySelector(".grid tbody"), first = () => body.querySelector("tr:not(.space)")?.textContent;
    const before = first();
    const inSight = Math.ceil(document.querySelector(".grid").clientHeight / ROW_PX);
    new MutationObserver((_, observer) => {
        if (first() === before) return;
        observer.disconnect();
        resolve([body.querySelectorAll("tr:not(.space)").length, inSight]);
    }).observe(body, { childList: true, subtree: true, characterData: true });
    target.click();
})""".replace("ROW_PX", str(ROW_PX))


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    cluster = LiveCluster(1, ClusterConf(cpus=16, more=("AuthAltTypes=auth/jwt",)))
    config = load(str(cluster.slurm_conf)).config
    assert fill_waiting(cluster.home / CTLD / "penstock.db", config, JOBS, START_US, hold=True) == 1
    with cluster:
        rest = LiveRest(cluster, "--web")
        rest.start()
        try:
            yield rest
        finally:
            print(cluster.logs())
            cluster.kill(CTLD)  # so that nobody cancels the jobs one by one


@pytest.fixture
def web(pages: WebPages) -> Iterator[WebPages]:
    """The browser; the jobs stay."""
    yield pages
    try:
        pages.check()
    finally:
        pages.close_pages()


def opened(web: WebPages, where: str = "jobs") -> "Page":
    """A page with the table, which has rows."""
    page = web.opened(where, "Jobs")
    page.locator(".grid tbody a").first.wait_for()
    return page


def cell(page: "Page", name: str) -> "Locator":
    return page.get_by_role("cell", name=name, exact=True)


def first_row(page: "Page", text: str) -> None:
    """Waits until the first row has a text."""
    page.locator(".grid tbody tr:not(.space)").first.get_by_text(text, exact=True).wait_for()


def is_of_table(request: "Request") -> bool:
    return "/penstock/v1/jobs?" in request.url and "first=" in request.url


def test_scrolled_to_the_middle_and_the_end(web):
    """Rows around those in sight are asked for and are in the document, and no others."""
    page = opened(web)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if is_of_table(one) else None)
    wait_for_text(page, f"{JOBS:,} jobs")
    first_row(page, str(JOBS))
    table = page.get_by_role("region", name="Jobs")
    table.evaluate("(one, top) => { one.scrollTop = top; }", ROW_PX * (JOBS // 2))
    cell(page, f"train-{JOBS // 2 - 1}").wait_for()
    table.focus()
    page.keyboard.press("End")
    cell(page, "train-0").wait_for()
    assert cell(page, "train-0").is_visible()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-1", level=1).wait_for()
    page.go_back()
    first_row(page, str(JOBS))
    assert page.locator(".grid tbody tr").count() < ROWS_MAX
    assert asked and all(int(found[1]) <= 1000 for url in asked if (found := re.search(r"count=(\d+)", url)))
    check_looks(page, "jobs-many")


def test_rows_in_sight_are_drawn_first_and_those_around_them_next(web):
    page = opened(web, "jobs?sort=id")
    drawn, in_sight = page.get_by_role("button", name="Job", exact=True).evaluate(ROWS_AT_FIRST)
    assert 0 < drawn <= in_sight
    page.locator(".grid tbody tr:not(.space)").nth(drawn + 9).wait_for()
    page.get_by_role("region", name="Jobs").evaluate("one => { one.scrollTop = 100000; }")
    page.locator(f".grid tbody tr[aria-rowindex='{100_000 // ROW_PX - 5}']").wait_for()  # above those in sight


def test_a_click_marks_a_row_and_keys_move_far_from_it(web):
    """The marked row stays in sight, beyond the rows that were drawn; Enter opens it, as a double click does."""
    page = opened(web, "jobs?sort=id")
    first_row(page, "train-0")
    cell(page, "train-2").click()
    marked = page.locator(".grid tr.marked")
    marked.get_by_text("train-2", exact=True).wait_for()
    for number in range(3, 63):
        page.keyboard.press("ArrowDown")
        marked.get_by_text(f"train-{number}", exact=True).wait_for()
    box, row = page.get_by_role("region", name="Jobs").bounding_box(), marked.bounding_box()
    assert box and row and box["y"] <= row["y"]
    assert row["y"] + row["height"] <= box["y"] + box["height"] + 1  # edges are no whole pixels
    assert marked.get_attribute("aria-rowindex") == "64"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-62", level=1).wait_for()
    page.go_back()
    first_row(page, "train-0")
    cell(page, "train-3").dblclick()
    page.get_by_role("heading", name="train-3", level=1).wait_for()


def test_sorted_by_a_head_and_the_other_way_round(web):
    """Another order is shown from its begin."""
    page = opened(web)
    page.get_by_role("region", name="Jobs").evaluate("one => { one.scrollTop = 500000; }")
    cell(page, f"train-{JOBS - 500_000 // ROW_PX - 1}").wait_for()
    page.get_by_role("button", name="Name").click()
    first_row(page, "train-0")
    page.get_by_role("button", name="Name").click()
    first_row(page, f"train-{JOBS - 1}")
    assert page.evaluate("document.querySelector('.grid').scrollTop") == 0
    page.get_by_role("button", name="Submitted").click()
    first_row(page, "train-0")


def test_a_word_is_searched_as_it_is_typed_with_one_request_at_a_time(web):
    """The first key is asked for at once; what is typed meanwhile after the answer; nothing of before is shown at the end."""
    page = opened(web)
    table = page.get_by_role("region", name="Jobs")
    page.evaluate(COUNT_REQUESTS)
    with page.expect_request(lambda one: one.url.find("search=t&") > 0):
        page.get_by_role("searchbox").press_sequentially("t")
    page.get_by_role("searchbox").press_sequentially("rain-77777")
    page.get_by_text("1 job", exact=True).wait_for()
    first_row(page, "train-77777")
    assert table.get_attribute("aria-busy") == "false"
    asked = page.evaluate("globalThis.asked")
    assert (
        asked["most"] == 1 and asked["now"] == 0 and asked["all"] <= len("train-77777") + 1
    )  # the stream begins meanwhile
    page.get_by_role("searchbox").fill("")
    wait_for_text(page, f"{JOBS:,} jobs")
    page.get_by_role("searchbox").fill("no such job")
    wait_for_text(page, "No job passes these filters.")


def test_an_address_with_a_filter_and_back_and_forward(web):
    with_it = [number for number in range(JOBS) if "9999" in f"{number} {number + 1}"]
    page = opened(web, "jobs?q=9999+pending&state=PENDING&sort=-name&cols=id,name,reason")
    wait_for_text(page, f"{len(with_it)} jobs")
    names = sorted((f"train-{number}" for number in with_it), reverse=True)
    first_row(page, names[0])
    assert (
        page.locator(".grid tbody td:nth-child(2)").all_inner_texts() == names[: page.locator(".grid tbody tr").count()]
    )
    address = page.url
    page.locator(".grid tbody a").nth(1).click()
    page.get_by_role("heading", name=names[1], level=1).wait_for()
    page.go_back()
    first_row(page, names[0])
    assert page.url == address and page.get_by_role("searchbox").input_value() == "9999 pending"
    assert page.get_by_role("columnheader").all_inner_texts() == ["Job", "Name ↓", "Reason"]
    page.go_forward()
    page.get_by_role("heading", name=names[1], level=1).wait_for()
    page.go_back()
    page.get_by_role("combobox", name="State").select_option("RUNNING")
    wait_for_text(page, "No job passes these filters.")


def test_what_happens_is_shown_in_the_long_table(web):
    """A job that comes is the first row, runs and ends, while a table by names is open beside it."""
    cluster = web.rest.cluster
    page, other = opened(web), opened(web, "jobs?sort=name")
    first_row(other, "train-0")
    before = len(
        cluster.run("squeue", "-h", "-t", "all", "-n", "a-fresh-one,train-4242-too", "-o", "%A").ok().out.split()
    )
    job = cluster.sbatch("-J", "a-fresh-one", "--wrap", "sleep 600")
    first_row(page, "a-fresh-one")
    first_row(other, "a-fresh-one")
    wait_for_text(page, f"{JOBS + before + 1:,} jobs")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=str(job), exact=True))
    row.get_by_text("Running").wait_for()
    cluster.run("scancel", str(job)).ok()
    row.get_by_text("Cancelled").wait_for()


def test_a_lost_connection_while_the_table_is_open(web):
    """Its rows stay; what is typed meanwhile is answered when the daemon is back."""
    page = opened(web, "jobs?sort=name")
    shown = page.locator(".grid tbody a").first.inner_text()
    web.rest.cluster.kill(RESTD)
    wait_for_text(page, "The connection is lost.")
    page.get_by_role("searchbox").fill("train-4242")
    assert page.locator(".grid tbody a").first.inner_text() == shown
    assert page.get_by_role("region", name="Jobs").get_attribute("aria-busy") == "true"
    web.rest.start()
    page.get_by_text("The connection is lost.").wait_for(state="detached")
    page.get_by_text("11 jobs", exact=True).wait_for()
    first_row(page, "train-4242")
    job = web.rest.cluster.sbatch("-J", "train-4242-too", "--hold", "--wrap", "true")
    page.get_by_text("12 jobs", exact=True).wait_for()
    web.rest.cluster.run("scancel", str(job)).ok()
    page.get_by_role("region", name="Jobs").get_by_text("Cancelled").wait_for()


def test_what_gpus_do_is_not_asked_of_a_cluster_without_any(web):
    page = web.login()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    for where, heading in (("nodes", "Nodes"), ("", "Overview")):
        web.open(page, where, heading)
    page.get_by_text("No node has a GPU.").wait_for()
    assert any(url.endswith("/gpus") for url in asked) and not any("/gpus/readings" in url for url in asked)
