"""How the tasks of a step ended, on the page of its job. Against a real cluster."""

import re

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Locator, Page
from webpages import CHROMIUM, WebPages, check_looks, save_picture

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
SCRIPT = """\
srun -J fails -o task-%t sh -c 'echo rank $SLURM_PROCID; case $SLURM_PROCID in 2) exit 3;; 3) kill -9 $$;; esac'
srun -J many --overcommit -n150 -o /dev/null false
srun -J fine true
"""


def _row(page: Page, title: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(rf"\b{title}$")))


def _cells(row: Locator) -> list[str]:
    return [one.strip() for one in row.locator("td").all_inner_texts()]


def test_tasks_that_failed_come_first_with_their_nodes_and_output(web: WebPages) -> None:
    cluster = web.rest.cluster
    folder = cluster.work / "taskends"
    folder.mkdir()
    job = cluster.sbatch(
        "-J", "taskends", "-N2", "-n4", "--ntasks-per-node=2", "-D", str(folder), "-o", "out", "--wrap", SCRIPT
    )
    cluster.wait_ends(job)
    page = web.opened(f"jobs/{job}", "taskends")
    tree = page.get_by_role("treegrid", name="Steps, nodes and tasks")
    step = tree.get_by_role("row").filter(has_text="fails")
    step.wait_for()
    step.focus()
    page.keyboard.press("ArrowRight")
    titles = tree.get_by_role("rowheader")
    assert [one.strip("▸▾ \n") for one in titles.all_inner_texts()[1:6]] == ["0", "task 2", "task 3", "n1", "n2"]
    assert _cells(_row(page, "task 2"))[:4] == ["Output", "", "3", "n2"]
    assert _cells(_row(page, "task 3"))[:4] == ["Output", "", "signal 9", "n2"]
    page.keyboard.press("ArrowDown")
    assert _row(page, "task 2").evaluate("it => it === document.activeElement")
    check_looks(page, "job-taskends")
    page.set_viewport_size({"width": 1280, "height": 2000})
    save_picture(page, "job-taskends-tall")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the button of that row
    page.get_by_role("log", name="Output, stdout").get_by_text("rank 2", exact=True).wait_for()
    assert page.get_by_label("Written by").evaluate("it => it === document.activeElement && it.value") == "0"
    many = tree.get_by_role("row").filter(has_text="many")
    many.get_by_role("button", name=re.compile("^Open ")).click()
    tree.get_by_text("and 50 more tasks that did not end with 0").wait_for()
    assert tree.get_by_role("rowheader", name=re.compile(r"^task \d+$")).count() == 2 + 100
    fine = tree.get_by_role("row").filter(has_text="fine")
    fine.get_by_role("button", name=re.compile("^Open ")).click()
    assert tree.get_by_role("rowheader", name=re.compile(r"^task \d+$")).count() == 2 + 100
