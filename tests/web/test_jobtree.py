"""The steps of a job as a tree, down to its tasks, and a chart of each task. Against a real cluster."""

import re

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, save_picture

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
#: Each task has as many tens of MiB as its number says, and one more; all keep a core busy now and then.
WORK = (
    "import os, time\ndata = b'x' * ((int(os.environ['SLURM_PROCID']) + 1) * 10 << 20)\n"
    "while True:\n    sum(range(100_000))\n    time.sleep(0.05)"
)


def test_steps_nodes_and_tasks_with_their_charts(web):
    cluster = web.rest.cluster
    program = cluster.work / "work.py"
    program.write_text(WORK)
    script = f"srun -J first true; srun -J work -n4 python3 {program}"
    job = cluster.sbatch("-J", "tree", "-N2", "-n4", "--ntasks-per-node=2", "--acctg-freq=1", "--wrap", script)

    def measured() -> bool:
        with web.rest.as_user() as client:
            found = client.get(f"/penstock/v1/jobs/{job}/profile?step=1").json()["profiles"]
        return [len(one["tasks"]) for one in found] == [2, 2] and all(
            one["lines"][0]["metrics"][0]["max"] for one in found
        )

    cluster.wait(measured, "each task is measured")
    page = web.opened(f"jobs/{job}", "tree")
    tree = page.get_by_role("treegrid", name="Steps, nodes and tasks")
    row = tree.get_by_role("row").filter(has=page.locator("code", has_text=re.compile("^1$")))
    row.filter(has_text="work").filter(has_text="Running").wait_for()
    assert tree.get_by_role("rowheader", name="task").count() == 0  # nothing is asked before it is opened
    row.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):  # the step, its first node, that node's tasks
        page.keyboard.press(key)
    second = tree.get_by_role("row").filter(has=page.get_by_role("rowheader", name="task 1", exact=True))
    second.wait_for()
    assert second.get_attribute("aria-level") == "3" and "MiB" in second.inner_text()
    assert tree.get_by_role("rowheader", name="task 2", exact=True).count() == 0  # it is on the other node
    tree.get_by_role("button", name="Open n2").click()
    tree.get_by_role("rowheader", name="task 3", exact=True).wait_for()
    page.get_by_label("Of", exact=True).select_option("each of tasks 0 to 1")
    page.get_by_role("img", name=re.compile("^Memory over .*: task 0 mean .*; task 1 mean ")).wait_for()
    check_looks(page, "job-tree")
    page.set_viewport_size({"width": 1280, "height": 2200})
    save_picture(page, "job-tree-wide")
    row.focus()
    page.keyboard.press("ArrowLeft")
    second.wait_for(state="detached")
    assert row.get_attribute("aria-expanded") == "false"
    cluster.run("scancel", str(job)).ok()

    def kept() -> bool:  # what accounting has of it when it has ended
        with web.rest.as_user() as client:
            state = client.get(f"/penstock/v1/jobs/{job}/steps").json()["steps"][-1]["state"]
        return state != "RUNNING"

    cluster.wait(kept, "the step's end is recorded")
    with web.rest.as_user() as client:
        found = client.get(f"/penstock/v1/jobs/{job}/profile?step=1&tasks=3").json()["profiles"]
        figures = {
            one["name"]: one for one in client.get(f"/penstock/v1/jobs/{job}/steps").json()["steps"][-1]["figures"]
        }
    used = {task["rank"]: task["memory_max_bytes"] for one in found for task in one["tasks"]}
    assert sorted(used) == [0, 1, 2, 3] and used[3] > used[0] + (20 << 20), used
    assert (figures["rss_kb"]["max_task"], figures["rss_kb"]["max_node"]) == (3, "n2")
    assert [[line["device"] for line in one["lines"] if line["kind"] == "task"] for one in found] == [[], ["3"]]
