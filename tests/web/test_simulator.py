"""The simulator's page in a real browser: the cluster's last days, a log of the user's, what is refused, and the button that ends it."""

import gzip
from pathlib import Path

import pytest
from simlogs import BUSY, HEAVY, SWF

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, save_picture, wait_for_text

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
NAME = "<img src=x onerror=alert(1)>.swf"


def test_the_last_days_of_the_cluster(web):
    cluster = web.rest.cluster
    jobs = [cluster.sbatch("-J", "sim", "--gpus=2", "-t", "5", "--wrap", "true") for _ in range(6)]
    for job in jobs:
        cluster.wait_state(job, "COMPLETED")
    page = web.opened("simulator", "Simulator")
    check_looks(page, "simulator-empty")
    page.get_by_label("This cluster's as it is configured").check()
    page.get_by_role("button", name="Simulate").click()
    table = page.get_by_role("region", name="Figures by policy")
    table.get_by_role("columnheader", name="As recorded").wait_for()
    table.get_by_role("columnheader", name="This cluster's").wait_for()
    assert table.get_by_role("columnheader").count() == 6
    table.get_by_role("rowheader", name="GPUs in use").wait_for()
    page.get_by_role("img", name="Jobs waiting over").wait_for()
    assert "run=" in page.url
    page.reload()  # the result is kept
    page.get_by_role("region", name="Figures by policy").wait_for()


def test_a_log_of_the_user(web, tmp_path: Path):
    page = web.opened("simulator", "Simulator")
    page.get_by_role("combobox", name="Jobs").select_option("log")
    page.get_by_role("button", name="Simulate").click()
    wait_for_text(page, "Choose a file first.")
    page.locator("input[type=file]").set_input_files([{"name": "gpus.txt", "mimeType": "", "buffer": BUSY.encode()}])
    page.get_by_label("Machine").select_option("cluster")
    page.get_by_role("button", name="Simulate").click()
    page.get_by_role("img", name="GPUs in use over").wait_for()
    check_looks(page, "simulator")
    page.locator(".charts").scroll_into_view_if_needed()
    save_picture(page, "simulator-charts")
    page.get_by_label("Machine").select_option("header")
    log = tmp_path / "log"
    log.write_bytes(gzip.compress(SWF.encode()))
    page.locator("input[type=file]").set_input_files([{"name": NAME, "mimeType": "", "buffer": log.read_bytes()}])
    page.get_by_label("Conservative").check()
    page.get_by_role("button", name="Simulate").click()
    page.get_by_role("columnheader", name="Conservative").wait_for()
    page.get_by_role("heading", name="<img src=x onerror=alert(1)>").wait_for()
    page.locator("input[type=file]").set_input_files([{"name": "bad", "mimeType": "", "buffer": b"\x1f\x8bxxxx"}])
    page.get_by_role("button", name="Simulate").click()
    wait_for_text(page, "This gzip file is broken")
    page.locator("input[type=file]").set_input_files([{"name": "none", "mimeType": "", "buffer": b"hello"}])
    page.get_by_role("button", name="Simulate").click()
    wait_for_text(page, "not a known format")
    page.locator("input[type=file]").set_input_files(
        [{"name": "bomb", "mimeType": "", "buffer": gzip.compress(b"1 " * 10**7)}]
    )
    page.get_by_role("button", name="Simulate").click()
    wait_for_text(page, "more than 14 MB")


def test_who_closes_the_page_or_cancels_ends_it(web):
    page = web.login()
    heavy = [{"name": "heavy.swf", "mimeType": "", "buffer": HEAVY.encode()}]

    def begin() -> None:
        web.open(page, "simulator", "Simulator")
        page.get_by_role("combobox", name="Jobs").select_option("log")
        page.locator("input[type=file]").set_input_files(heavy)
        page.get_by_label("Conservative").check()
        page.get_by_role("button", name="Simulate").click()
        page.get_by_role("button", name="Cancel", exact=True).wait_for()

    begin()
    page.get_by_role("button", name="Cancel", exact=True).click()
    wait_for_text(page, "Cancelled.")
    page.goto("about:blank")
    begin()
    where = page.url.partition("run=")[2]
    page.goto("about:blank")
    with web.rest.as_user() as client:
        path = f"/penstock/v1/simulations/{where}"
        web.rest.cluster.wait(lambda: client.get(path).json().get("state") == "CANCELLED", "the page has ended it")
