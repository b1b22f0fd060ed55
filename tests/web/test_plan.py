"""The plan: nodes by time with running and planned jobs and reservations, and why a job is planned there and then."""

import re

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, PHONE_WIDTH, check_looks, wait_for_text

from penstock import __version__

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOSTILE = "<img src=x onerror=alert(1)>"
#: Of the chart: left edge of the bars, and the middle of the first lane of the first row, in pixels.
BARS_LEFT, FIRST_LANE = 110, 35


@pytest.fixture
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
    page = web.opened("plan", "Plan")
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


def test_if_nodes_go_and_if_a_job_came(web, planned):
    """Both asked of the planner, shown as bars and rows; nothing of it happens."""
    runs, waits = planned
    cluster = web.rest.cluster
    mine = cluster.sbatch("-J", "either", "-N2", "--exclusive", "--time=20", "--wrap", "true")
    page = web.opened("plan", "Plan")
    page.get_by_role("button", name="If nodes go").click()
    wait_for_text(page, "Type the names of nodes")
    page.get_by_label("Nodes that go").fill("n1")
    page.get_by_role("button", name="Ask the planner").click()
    rows = page.get_by_role("region", name="Jobs that would move").get_by_role("row")
    rows.filter(has=page.get_by_role("link", name=str(runs), exact=True)).get_by_text("Requeued").wait_for()
    for job in (waits, mine):
        rows.filter(has=page.get_by_role("link", name=str(job), exact=True)).get_by_text("Never starts").wait_for()
    wait_for_text(page, "2 jobs would never start, 1 running job would be requeued.")
    page.get_by_role("table").get_by_text(HOSTILE).wait_for()
    check_looks(page, "plan-if-nodes")
    page.get_by_label("Their jobs").select_option("run_on")
    wait_for_text(page, "2 jobs would never start.")
    assert "if=nodes&gone=n1&jobs=run_on" in page.url
    page.locator(".gantt-box canvas").click(position={"x": 20, "y": FIRST_LANE})  # n1 comes back
    wait_for_text(page, "Type the names of nodes")
    page.locator(".gantt-box canvas").click(position={"x": 20, "y": FIRST_LANE})
    wait_for_text(page, "2 jobs would never start.")
    page.get_by_label("Nodes that go").fill("nowhere")
    page.get_by_role("button", name="Ask the planner").click()
    page.get_by_role("alert").get_by_text("Invalid node name").wait_for()
    page.get_by_role("button", name="If a job came").click()
    page.locator("#field-nodes").fill("2")
    page.get_by_label("Time limit").fill("10")
    wait_for_text(page, "It would start")
    wait_for_text(page, "It would delay nobody.")
    check_looks(page, "plan-if-job")
    page.get_by_label("GPUs").fill("1000")
    wait_for_text(page, "It would be refused.")
    page.get_by_label("GPUs").fill("")
    page.get_by_role("link", name="Its script").click()
    page.get_by_role("heading", name="Submit a job").wait_for()
    assert "#SBATCH --nodes=2" in page.get_by_label("Script", exact=True).input_value()
    page.get_by_label("Script", exact=True).fill("#!/bin/sh\n#SBATCH --signal=B:USR1@60\nhostname\n")
    page.get_by_role("link", name="Whom it would delay").click()
    page.get_by_role("heading", name="If a job came").wait_for()
    page.get_by_role("alert").get_by_text("Line 2 of its script").wait_for()
    page.get_by_role("button", name="If a job came").click()
    page.get_by_role("region", name="Planned starts", exact=True).wait_for()
    assert cluster.job(runs).state == "RUNNING" and list(cluster.node("n1").flags) == []
    assert len(cluster.run("squeue", "-h").ok().out.splitlines()) == 3


def test_what_others_may_not_see_of_a_change(web, planned):
    """With PrivateData=jobs the jobs of others are counted, and not named."""
    cluster = web.rest.cluster
    cluster.slurm_conf.write_text(cluster.conf_text("PrivateData=jobs"))
    cluster.run("scontrol", "reconfigure").ok()
    try:
        page = web.opened("plan?if=nodes&gone=n1", "Plan", "nobody")
        wait_for_text(page, "2 jobs of other users, which you may not see, move, too.")
        assert page.get_by_text(HOSTILE).count() == 0
    finally:
        cluster.slurm_conf.write_text(cluster.conf_text())
        cluster.run("scontrol", "reconfigure").ok()


def test_the_configuration_and_its_files(web):
    """What the files say otherwise, what it needs, and what is wrong with them; for administrators."""
    cluster = web.rest.cluster
    page = web.opened("cluster", "Cluster")
    card = page.locator("section.card").filter(has_text="Configuration files")
    card.get_by_text("As in force").wait_for()
    try:
        more = cluster.slurm_conf.with_name("more.conf")
        more.write_text("MaxArraySize=77\nPartitionName=late Nodes=n2\n")
        changed = cluster.conf_text(f"include {more}").replace("ClusterName=", "ClusterName=x")
        cluster.slurm_conf.write_text(changed)
        web.open(page, "", "Overview")
        web.open(page, "cluster", "Cluster")
        card.get_by_text("3 differences").wait_for()
        rows = card.get_by_role("row")
        rows.filter(has_text="ClusterName").get_by_text("Restart").wait_for()
        rows.filter(has_text="MaxArraySize").filter(has_text="77").get_by_text("Reconfigure").wait_for()
        rows.filter(has_text="partition late").wait_for()
        card.get_by_text("ClusterName cannot change while the controller runs").wait_for()
        check_looks(page, "cluster-diff")
        more.write_text("MaxArraySize=<img src=x>\n\nNonsense=1\n")
        web.open(page, "", "Overview")
        web.open(page, "cluster", "Cluster")
        card.get_by_text(f"{more}:1:").first.wait_for()
        card.get_by_text(f"{more}:3:").wait_for()
        check_looks(page, "cluster-error")
    finally:
        cluster.slurm_conf.write_text(cluster.conf_text())
    page = web.opened("cluster", "Cluster", "nobody")
    page.get_by_text("Answers", exact=True).wait_for()
    assert page.get_by_text("Configuration files").count() == 0


def test_certificates_and_database(web):
    """Until when, and where; for administrators."""
    page = web.opened("cluster", "Cluster")
    rows = page.get_by_role("region", name="Certificates").get_by_role("row")
    rows.filter(has_text="CA of the cluster").wait_for()
    assert [one.count() for one in (rows.filter(has_text="Controller"), rows.filter(has_text="Soon"))] == [1, 0]
    database = page.locator("section.card").filter(has_text="Changes not in it yet")
    database.get_by_text("SQLite, a file of the controller").wait_for()
    assert "MiB" in database.inner_text() and "Up to date" in database.inner_text()
    check_looks(page, "cluster-certificates")
    page = web.opened("cluster", "Cluster", "nobody")
    page.get_by_text("Answers", exact=True).wait_for()
    assert page.get_by_text("Certificates").count() == 0 and page.get_by_text("SQLite").count() == 0


@pytest.mark.parametrize("address", ["constructor", "__proto__", "toString"])
def test_an_address_without_a_page(web, address):
    web.opened(address, "Nothing here")


def test_words_of_an_address_that_mean_nothing(web):
    page = web.opened("reports?by=constructor&period=toString", "Reports")
    assert page.get_by_role("combobox", name="By").input_value() == "account,user"
    web.open(page, "plan?span=constructor", "Plan")
    assert page.get_by_role("combobox", name="Span").input_value() == "1d"


def test_the_cluster(web, planned):
    web.rest.cluster.run("scontrol", "update", "partition=main", "maxtime=120").ok()
    page = web.opened("cluster", "Cluster")
    page.get_by_text("Answers", exact=True).wait_for()
    controller = page.locator("section.card").filter(has=page.get_by_role("heading", name="Controller", exact=True))
    controller.get_by_text(re.compile(r"\(primary, answers\)$")).wait_for()
    controller.get_by_text(re.compile(rf"^{re.escape(__version__)}: \d+ nodes?$")).wait_for()
    check_looks(page, "cluster")
    page.get_by_placeholder("Filter").fill("ClusterName")  # the table has only the rows that are seen
    page.get_by_role("row").filter(has_text="ClusterName").wait_for()
    page.get_by_role("link", name="Audit log").click()
    page.get_by_role("heading", name="Audit log", level=1).wait_for()
    page.get_by_role("row").filter(has_text="main").first.wait_for()
    check_looks(page, "audit")
    page.set_viewport_size({"width": PHONE_WIDTH, "height": 740})
    web.open(page, "", "Overview")
    web.open(page, "cluster", "Cluster")  # the last one of the menu, which does not fit
    page.wait_for_function(
        "() => document.querySelector('nav [aria-current=page]').getBoundingClientRect().right <= innerWidth"
    )
    page = web.opened("cluster/audit", "Audit log", "nobody")
    page.get_by_role("alert").wait_for()
