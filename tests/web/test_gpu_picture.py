"""The picture of all GPUs in a cluster with switches: its groups, colours and zoom; a node's events; what stands beside them on the
overview: a budget that is near its end."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from livecluster import ClusterConf, LiveCluster
from liverest import LiveRest
from webpages import CHROMIUM, check_looks, save_picture, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
SLEEP = ("--wrap", "sleep 600")


#: Three nodes, two of them under one switch.
SWITCHES = "SwitchName=rack1 Nodes=n[1-2]\nSwitchName=rack2 Nodes=n3\nSwitchName=spine Switches=rack[1-2]\n"


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    conf = ClusterConf(cpus=16, gpus=8, more=("AuthAltTypes=auth/jwt", "TopologyPlugin=topology/tree"))
    cluster = LiveCluster(3, conf)
    (cluster.home / "topology.conf").write_text(SWITCHES)
    with cluster:
        rest = LiveRest(cluster, "--web")
        rest.start()
        try:
            yield rest
        finally:
            print(cluster.logs())


def height(picture: "Locator") -> float:
    box = picture.bounding_box()
    assert box is not None
    return box["height"]


def point_at(page: "Page", picture: "Locator") -> None:
    """The first GPU of a picture: under the name of its node."""
    picture.hover(position={"x": 8, "y": 22})


def test_groups_colours_and_zoom(web):
    cluster = web.rest.cluster
    job = cluster.sbatch("-J", "train", "-w", "n1", "--gpus=3", *SLEEP)
    cluster.wait_state(job, "RUNNING")
    cluster.run("scontrol", "update", "nodename=n2", "gres=gpu:5", "state=drain", "reason=hot").ok()
    page = web.opened("nodes", "Nodes")
    first = page.get_by_role("img", name="rack1: 16 GPUs on 2 nodes: 3 allocated, 12 idle, 1 closed.")
    first.wait_for()
    page.get_by_role("img", name="rack2: 8 GPUs on 1 node: 8 idle.").wait_for()
    point_at(page, first)
    page.get_by_text(f"n1, GPU 0 (h200): allocated by job {job}").wait_for()
    check_looks(page, "nodes-switches")
    page.get_by_label("Colour by").select_option("health")
    page.get_by_role("img", name="rack1: 16 GPUs on 2 nodes: 15 healthy, 1 drained.").wait_for()
    save_picture(page, "nodes-health")
    page.get_by_label("Colour by").select_option("job")
    page.get_by_role("img", name=f"rack1: 16 GPUs on 2 nodes: 3 job {job}, 13 no job.").wait_for()
    assert "colour=job" in page.url
    page.get_by_label("By switch").uncheck()
    whole = page.get_by_role("img", name=f"24 GPUs on 3 nodes: 3 job {job}, 21 no job.")
    before = height(whole)
    page.get_by_role("button", name="Smaller squares").click()
    web.rest.cluster.wait(lambda: height(whole) < before, "it is smaller")
    page.get_by_role("button", name="Larger squares").click()
    web.rest.cluster.wait(lambda: height(whole) == before, "it is as before")
    cluster.run("scontrol", "update", "nodename=n2", "gres=gpu:5", "state=resume").ok()


def test_events_of_a_node(web):
    cluster = web.rest.cluster
    cluster.run("scontrol", "update", "nodename=n3", "state=drain", "reason=fan <b>4</b>").ok()
    page = web.opened("nodes/n3", "n3")
    events = page.locator("section.card").filter(has_text="Events of 30 days")
    row = events.get_by_role("listitem").filter(has_text="fan <b>4</b>")
    row.filter(has_text="goes on").wait_for()
    cluster.run("scontrol", "update", "nodename=n3", "state=resume").ok()
    row.filter(has_text="for ").wait_for()  # without a reload
    check_looks(page, "node-events")


def test_a_budget_near_its_end_needs_attention(web):
    cluster = web.rest.cluster
    cluster.run("sacctmgr", "-i", "add", "account", "lab").ok()
    cluster.run("sacctmgr", "-i", "add", "user", "root", "account=lab").ok()
    cluster.run("sacctmgr", "-i", "modify", "account", "lab", "set", "budget=1gpu-hours/none").ok()
    page = web.login()
    wait_for_text(page, "Nothing: all nodes")
    job = cluster.sbatch("-A", "lab", "-J", "spends", "--gpus=1", "-t", "58", *SLEEP)
    cluster.wait_state(job, "RUNNING")
    page.reload()
    row = page.get_by_role("listitem").filter(has_text="budget of 1 gpu-hours")
    row.get_by_text("97 % gone").wait_for()
    save_picture(page, "overview-budget")
    row.get_by_role("link").click()
    page.get_by_role("heading", name="Accounts").wait_for()
    assert page.url.endswith("accounts?q=lab")
