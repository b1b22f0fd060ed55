"""Reservations, QOS, accounts and reports: what sacctmgr, scontrol and sreport show, in tables with filter, sort and columns."""

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, wait_for_text

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOSTILE = "<img src=x onerror=alert(1)>'\""


@pytest.fixture(scope="module")
def filled(rest):
    """Accounts with limits, a QOS, a reservation, some of them with texts that are no markup."""
    cluster = rest.cluster
    for words in (
        ("add", "account", "lab", f"description={HOSTILE}"), ("add", "account", "team", "parent=lab", "fairshare=7"),
        ("add", "user", "nobody", "account=team", "maxjobs=3", "maxwall=90"),
        ("add", "qos", "urgent", "priority=900", "maxtresperuser=cpu=8", f"description={HOSTILE}"),
    ):  # fmt: skip
        cluster.run("sacctmgr", "-i", *words).ok()
    cluster.run(
        "scontrol", "create", "reservation", "reservationname=maint", "starttime=now+1hour", "duration=30",
        "nodes=n1", "users=root", "flags=maint",
    ).ok()  # fmt: skip
    return cluster


def test_reservations(web, filled):
    page = web.opened("reservations", "Reservations")
    row = page.get_by_role("row").filter(has_text="maint")
    row.get_by_text("Planned").wait_for()
    row.get_by_text("30 min").wait_for()
    check_looks(page, "reservations")
    page.get_by_role("searchbox").fill("nothing like it")
    wait_for_text(page, "No row passes this filter.")
    assert "q=nothing" in page.url


def test_qos(web, filled):
    page = web.opened("qos?sort=name", "QOS")
    row = page.get_by_role("row").filter(has_text="urgent")
    row.get_by_text("cpu=8").wait_for()
    row.get_by_text(HOSTILE).wait_for()
    assert page.locator("img[src=x]").count() == 0
    check_looks(page, "qos")


def test_accounts_are_a_tree(web, filled):
    page = web.opened("accounts", "Accounts")
    page.get_by_role("link", name="nobody").wait_for()
    texts = page.get_by_role("row").all_inner_texts()
    at = {name: next(i for i, text in enumerate(texts) if text.startswith(name)) for name in ("root", "lab", "team")}
    assert at["root"] < at["lab"] < at["team"]
    row = page.get_by_role("row").filter(has_text="nobody")
    row.get_by_text("1 h 30 min").wait_for()
    check_looks(page, "accounts")
    page.get_by_role("button", name="Copy CSV").click()
    wait_for_text(page, "Copied")
    assert "team" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="My accounts").click()
    page.get_by_role("link", name="nobody").wait_for(state="detached")
    web.open(page, "accounts?user=nobody", "Accounts")
    page.get_by_role("link", name="nobody").click()
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.url.endswith("jobs?user=nobody")


def test_who_borrows_from_whom(web, filled):
    """The cluster enforces no limits, so nobody borrows; what is shown is then the test's, in the form of a cluster that does
    (e2e/test_e2e_governance.py)."""
    with web.rest.as_user() as client:
        real = client.get("/penstock/v1/borrowing").json()
    page = web.opened("accounts", "Accounts")
    assert real["rows"] == [] and page.get_by_role("heading", name="Borrowing").count() == 0
    row = {"parent": "lab", "tres": "gres/gpu", "guarantee": 4, "may_borrow": 4}
    rows = [
        row | {"account": HOSTILE, "used": 6, "borrowed": 2, "idle": 0, "lenders": ["two"]},
        row | {"account": "two", "used": 1, "borrowed": 0, "idle": 3, "lenders": []},
    ]
    page.route("**/penstock/v1/borrowing", lambda route: route.fulfill(json=real | {"rows": rows}))
    page.reload()
    borrowing = page.get_by_role("region", name="Borrowing")
    borrowing.wait_for()
    texts = borrowing.get_by_role("row").filter(has_text=HOSTILE).get_by_role("cell").all_inner_texts()
    assert texts == ["GPUs", "4", "6", "2", "two", "4", "–"]
    assert borrowing.get_by_role("row").filter(has_text="3").count() == 1
    check_looks(page, "accounts-borrowing")


def test_reports(web, filled):
    """A job that ran is use of this day, as sreport counts it."""
    job = filled.sbatch("-J", "used", "--gpus=1", "--wrap", "true")
    filled.wait_ends(job)
    page = web.opened("reports?period=today", "Reports")
    page.get_by_role("columnheader", name="CPU hours").wait_for()
    check_looks(page, "reports")
    page.get_by_role("combobox", name="By").select_option("qos")
    page.get_by_role("columnheader", name="QOS").wait_for()
    page.get_by_role("combobox", name="Period").select_option("dates")
    wait_for_text(page, "Choose two dates, the earlier one first.")
    page.get_by_label("First day").fill("2026-01-01")
    page.get_by_label("Last day").fill("2026-01-02")
    wait_for_text(page, "Nothing was used in this period.")
    assert "by=qos" in page.url and "from=2026-01-01" in page.url


def test_reports_made_from_jobs(web, filled):
    """Waits and efficiency in the figures of REST, which are the commands'. Pretended GPUs are not measured, so what is unused is
    the test's."""
    for number in range(2):
        filled.wait_ends(filled.sbatch("-J", f"used{number}", "--gpus=2", "--wrap", "true"))
    with web.rest.as_user() as client:
        waits = client.get("/penstock/v1/waits").json()["rows"]
        used = client.get("/penstock/v1/efficiency").json()["rows"]
    (mine,) = (row for row in waits if row["keys"] == ["main", "h200"])
    page = web.opened("reports?period=today", "Reports")
    page.get_by_role("columnheader", name="h200 hours").wait_for()
    page.get_by_role("combobox", name="Report").select_option("waits")
    row = page.get_by_role("row").filter(has_text="h200")
    row.wait_for()
    assert row.get_by_role("cell").nth(2).inner_text() == str(mine["jobs"]) and mine["jobs"] >= 2
    check_looks(page, "reports-waits")
    page.get_by_role("combobox", name="By").select_option("gpus")
    page.get_by_role("cell", name="2–3").wait_for()
    page.get_by_role("combobox", name="Report").select_option("efficiency")
    page.get_by_role("columnheader", name="CPUs used").wait_for()
    (root,) = (one for one in used if one["keys"] == ["root"])
    texts = page.get_by_role("row").filter(has_text="root").get_by_role("cell").all_inner_texts()
    assert texts[:2] == ["root", str(root["jobs"])] and texts[5] == ""  # no GPU was measured
    percent = root["cpu_percent"]  # null of jobs so short that they had no second
    assert texts[2] == "" if percent is None else float(texts[2].removesuffix(" %")) == pytest.approx(percent, abs=0.06)
    check_looks(page, "reports-efficiency")
    page.get_by_role("combobox", name="Report").select_option("unused")
    wait_for_text(page, "No such job in this period.")
    unused = {"name": HOSTILE, "jobs": 3, "unused_gpu_s": 72_000, "allocated_gpu_s": 288_000, "worst_job": 12,
              "worst_unused_gpu_s": 7200, "worst_command": "sbatch --gpus=8 train.sh"}  # fmt: skip
    given = {"start_at_us": 3600 * 10**6, "end_at_us": 7200 * 10**6, "rows": [unused], "errors": [], "warnings": []}
    page.route("**/penstock/v1/waste?*", lambda route: route.fulfill(json=given))
    page.get_by_role("combobox", name="By").select_option("name")
    row = page.get_by_role("row").filter(has_text=HOSTILE)
    row.wait_for()
    texts = row.get_by_role("cell").all_inner_texts()
    assert texts[1:] == ["3", "20.00", "80.00", "75.0 %", "12", "2.00", "sbatch --gpus=8 train.sh"]
    assert page.locator("img[src=x]").count() == 0
    check_looks(page, "reports-unused")
    page.get_by_role("button", name="Copy CSV").click()
    wait_for_text(page, "Copied")
    assert "sbatch --gpus=8 train.sh" in page.evaluate("navigator.clipboard.readText()")
    assert "report=unused" in page.url and "by=name" in page.url
