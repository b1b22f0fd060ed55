"""The plan: nodes by time with running and planned jobs and reservations, and why a job is planned there and then."""

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, wait_for_text

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOSTILE = "<img src=x onerror=alert(1)>"
#: Of the chart: left edge of the bars, and the middle of the first lane of the first row, in pixels.
BARS_LEFT, FIRST_LANE = 110, 35


@pytest.fixture(scope="module")
def planned(rest):
    """A job that has all of node n1, one that is planned behind it, and a reservation of the other node."""
    cluster = rest.cluster
    runs = cluster.sbatch("-J", "holds", "-w", "n1", "--exclusive", "--time=60", "--wrap", "sleep 600")
    cluster.wait_state(runs, "RUNNING")
    waits = cluster.sbatch("-J", HOSTILE, "-w", "n1", "--exclusive", "--time=30", "--wrap", "true")
    cluster.run(
        "scontrol", "create", "reservation", "reservationname=upkeep", "starttime=now+2hours", "duration=60", "nodes=n2",
        "users=root",
    ).ok()  # fmt: skip
    yield runs, waits
    cluster.run("scancel", str(runs), str(waits)).ok()
    cluster.run("scontrol", "delete", "reservationname=upkeep").ok()


def choose(web, page, after_s, pixels, job):
    """Clicks so many pixels behind a time from now; again while the chart still has the size that it had before."""
    chart, link = page.locator(".gantt-box canvas"), page.get_by_role("link", name=f"To job {job}")

    def is_chosen():
        width = chart.bounding_box()["width"] - BARS_LEFT
        chart.click(position={"x": BARS_LEFT + width * (0.08 + after_s / 86400) / 1.08 + pixels, "y": FIRST_LANE})
        return link.is_visible()

    web.rest.cluster.wait(is_chosen, f"the bar of job {job} is chosen")


def test_the_plan(web, planned):
    runs, waits = planned
    page = web.login()
    web.open(page, "plan", "Plan")
    row = page.get_by_role("row").filter(has_text=str(waits))
    row.get_by_text(HOSTILE).wait_for()
    page.get_by_role("region", name="1 planned start.").wait_for()
    check_looks(page, "plan")
    for after_s, pixels, job in ((0, 4, runs), (60 * 60, 8, waits)):
        choose(web, page, after_s, pixels, job)
    wait_for_text(page, f"Why job {waits} is there and then")
    assert f"chosen={waits}" in page.url
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name=f"To job {waits}").wait_for(state="detached")
    page.get_by_role("combobox", name="Span").select_option("6h")
    page.get_by_role("searchbox", name="Nodes").fill("n2")
    page.get_by_role("region", name="1 node from").wait_for()
    assert "span=6h" in page.url and "node=n2" in page.url
    page.get_by_role("searchbox", name="Nodes").fill("nothing")
    wait_for_text(page, "No node has this in its name.")


@pytest.mark.parametrize("address", ["constructor", "__proto__", "toString"])
def test_an_address_without_a_page(web, address):
    page = web.login()
    web.open(page, address, "Nothing here")


def test_words_of_an_address_that_mean_nothing(web):
    page = web.login()
    web.open(page, "reports?by=constructor&period=toString", "Reports")
    assert page.get_by_role("combobox", name="By").input_value() == "account,user"
    web.open(page, "plan?span=constructor", "Plan")
    assert page.get_by_role("combobox", name="Span").input_value() == "1d"


def test_the_cluster(web, planned):
    web.rest.cluster.run("scontrol", "update", "partition=main", "maxtime=120").ok()
    page = web.login()
    web.open(page, "cluster", "Cluster")
    page.get_by_text("Answers", exact=True).wait_for()
    check_looks(page, "cluster")
    page.get_by_placeholder("Filter").fill("ClusterName")  # the table has only the rows that are seen
    page.get_by_role("row").filter(has_text="ClusterName").wait_for()
    page.get_by_role("link", name="Audit log").click()
    page.get_by_role("heading", name="Audit log", level=1).wait_for()
    page.get_by_role("row").filter(has_text="main").first.wait_for()
    check_looks(page, "audit")
    page = web.login("nobody")
    web.open(page, "cluster/audit", "Audit log")
    page.get_by_role("alert").wait_for()
