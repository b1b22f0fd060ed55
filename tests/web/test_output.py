"""The output of a running job on its page, in a real browser: lines as they arrive, colours, search, what is hostile, the end."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, WebPages, check_looks, save_picture, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
#: Writes a line for each file that appears, and its colours.
SCRIPT = r"""
printf 'epoch 1 \033[32mloss=0.9\033[0m\n\033[1;31mwarning:\033[0m \033[43mslow\033[0m \033[7mdisk\033[0m\n'
printf '\033]0;title\007\033[2J<img src=x onerror=alert(1)>&amp;\n'
for c in 30 31 32 33 34 35 36 37 90 91 92 93 94 95 96 97; do printf "\033[${c}mcolour $c\033[0m "; done
for c in 40 41 42 43 44 45 46 47; do printf "\033[${c}mground $c\033[0m "; done; echo
echo 'failed step' >&2
while [ ! -e more ]; do sleep 0.05; done
printf '10%%\r20%%\rdone LOSS\n'
while [ ! -e many ]; do sleep 0.05; done
seq 1 20000
trap 'echo last words; exit 1' TERM
sleep 600 &
wait
"""


def output(page: "Page", name: str = "stdout") -> "Locator":
    return page.get_by_role("log", name=f"Output, {name}")


def test_lines_arrive_and_can_be_searched_copied_and_kept(web: WebPages) -> None:
    cluster = web.rest.cluster
    folder = cluster.work / "shown"
    folder.mkdir()
    job = cluster.sbatch(
        "-J", "shown", "-D", str(folder), "-o", "out", "-e", "err", stdin=b"#!/bin/sh\n" + SCRIPT.encode()
    )
    cluster.wait_state(job, "RUNNING")
    page = web.login()
    page.on("dialog", lambda dialog: web.problems.append(f"a script ran: {dialog.message}"))
    web.open(page, f"jobs/{job}", "shown")
    shown = output(page)
    shown.get_by_text("<img src=x onerror=alert(1)>&amp;", exact=True).wait_for()
    assert (
        "\x1b" not in shown.inner_text()
        and "title" not in shown.inner_text()
        and page.locator("img[src=x]").count() == 0
    )
    assert shown.locator("span.t-f2").first.inner_text() == "loss=0.9"
    assert shown.locator("span.t-bold.t-f1").inner_text() == "warning:" and shown.locator("[style]").count() == 0
    (folder / "more").touch()
    shown.get_by_text("done LOSS", exact=True).wait_for()
    search = page.get_by_label("Search the output")
    search.fill("loss")
    wait_for_text(page, "1 of 2")
    search.press("Enter")
    wait_for_text(page, "2 of 2")
    assert shown.locator("mark.now").inner_text() == "LOSS"
    check_looks(page, "job-output")
    card = page.locator("section.card").filter(has=shown)
    for width, name in ((1280, "wide"), (360, "phone")):
        page.set_viewport_size({"width": width, "height": 1000})
        save_picture(card, f"job-output-card-{name}")
    search.fill("")
    page.get_by_role("button", name="Copy", exact=True).click()
    wait_for_text(page, "Copied")
    assert page.evaluate("navigator.clipboard.readText()").endswith("\ndone LOSS\n")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == f"job-{job}.out" and "loss=0.9" in download.value.path().read_text()
    page.get_by_role("button", name="stderr").click()
    output(page, "stderr").get_by_text("failed step").wait_for()
    page.get_by_role("button", name="stdout").click()
    (folder / "many").touch()
    shown.get_by_text("20000", exact=True).wait_for()
    assert shown.evaluate("it => it.scrollHeight - it.scrollTop - it.clientHeight") < 50, "it follows"
    assert 100 < shown.locator("> div").count() <= 5000
    page.get_by_role("button", name="Follow").click()
    page.set_viewport_size({"width": 1280, "height": 1400})
    save_picture(page, "job-output-many")
    page.get_by_role("button", name="Follow").click()
    cluster.run("scancel", "--full", "--signal=TERM", str(job)).ok()
    shown.get_by_text("last words", exact=True).wait_for()
    page.locator("header.page .chip").get_by_text("Failed").wait_for()
    assert shown.get_by_text("20000", exact=True).count() == 1 and page.get_by_text("penstock logs").count() == 0


STEPS = """\
srun -n2 -J tasks -o task-%t --overlap sh -c 'echo rank $SLURM_PROCID'
srun -n1 -J own -o own --overlap echo of srun
echo all
"""


def test_an_ended_jobs_output_and_those_of_its_steps_tasks(web: WebPages) -> None:
    """Nobody has looked before its end."""
    cluster = web.rest.cluster
    folder = cluster.work / "ended"
    folder.mkdir()
    job = cluster.sbatch("-J", "ended", "-n2", "-D", str(folder), "-o", "out", "--wrap", STEPS)
    cluster.wait_state(job, "COMPLETED")
    page = web.opened(f"jobs/{job}", "ended")
    output(page).get_by_text("all", exact=True).wait_for()
    writers = page.get_by_label("Written by")
    writers.select_option("step 0 tasks")
    output(page).get_by_text("rank 0", exact=True).wait_for()
    task = page.get_by_label("Task", exact=True)
    task.fill("1")
    task.press("Enter")
    output(page).get_by_text("rank 1", exact=True).wait_for()
    save_picture(page, "job-output-task")
    writers.select_option("step 1 own")
    output(page).get_by_text("of srun", exact=True).wait_for()
    assert task.count() == 0
    (folder / "out").unlink()
    writers.select_option("whole job")
    wait_for_text(page, "No such file or directory")
    check_looks(page, "job-output-ended")


def test_it_is_not_asked_for_while_nobody_looks_and_others_may_not(web: WebPages) -> None:
    cluster = web.rest.cluster
    job = cluster.sbatch("-J", "private", "--wrap", "echo mine; exec sleep 600")
    cluster.wait_state(job, "RUNNING")
    page = web.opened(f"jobs/{job}", "private", "nobody")
    page.locator("section.card").filter(has_text="Output").get_by_text("Access/permission denied").first.wait_for()
    mine = web.opened(f"jobs/{job}", "private")
    output(mine).get_by_text("mine").wait_for()
    mine.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    asked: list[str] = []
    mine.on("request", lambda request: asked.append(request.url))
    mine.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    mine.evaluate("new Promise(done => setTimeout(done, 0))")
    assert not [url for url in asked if "/output" in url]
    mine.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    with mine.expect_request("**/output?*"):
        mine.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
