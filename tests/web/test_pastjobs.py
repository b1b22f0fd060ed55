"""Jobs of a period, with what they used, as sacct says it; and the steps of a job as a tree. Against a real cluster."""

import json

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, wait_for_text

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOSTILE = "<img src=x onerror=alert(1)> & co"
WORK = "srun -n2 --acctg-freq=1 python3 -c 'data = b\"x\" * (80 << 20); sum(range(3_000_000))'; exit 3"


def ended(web, *options: str) -> int:
    """Submits a job, and waits until accounting has its end."""
    job = web.rest.cluster.sbatch(*options)
    with web.rest.as_user() as client:
        web.rest.cluster.wait(
            lambda: (
                client.get(f"/slurmdb/v0.0.46/job/{job}").json()["jobs"][0]["state"]["current"][0]
                not in ("PENDING", "RUNNING")
            ),
            f"{job} ends",
        )
    return job


def test_past_jobs_have_what_they_used(web):
    cluster = web.rest.cluster
    job = ended(web, "-J", "train", "-n2", "--comment", HOSTILE, "--wrap", WORK)
    others = [ended(web, "-J", f"short{n}", "--wrap", "true") for n in range(3)]
    steps = json.loads(cluster.run("sacct", "-j", str(job), "--json").ok().stdout)["jobs"][0]["steps"]
    cpu_s = sum(one["time"]["total"]["seconds"] for one in steps)
    with web.rest.as_user() as client:
        answer = client.get("/penstock/v1/jobs/past").json()
        row = next(one for one in answer["jobs"] if one["job_id"] == job)
        assert [one["job_id"] for one in answer["jobs"]] == sorted([job, *others], reverse=True) and answer[
            "total"
        ] == 4
        assert (row["state"], row["exit_code"], row["comment"]) == ("FAILED", 3, HOSTILE)
        assert row["max_rss_kb"] > 80 << 10 and abs(row["cpu_used_us"] / 1e6 - cpu_s) < len(steps), (row, steps)
        page = client.get("/penstock/v1/jobs/past?first=1&count=2").json()
        assert ([one["job_id"] for one in page["jobs"]], page["total"]) == ([others[1], others[0]], 4)
    page = web.opened("jobs", "Jobs")
    page.get_by_role("navigation", name="Lists of jobs").get_by_role("link", name="Past").click()
    page.get_by_role("heading", name="Past jobs").wait_for()
    rows = page.get_by_role("row").filter(has=page.get_by_role("link"))
    rows.nth(3).wait_for()
    mine = rows.filter(has_text="train")
    texts = mine.get_by_role("cell").all_inner_texts()
    assert "3:0" in texts and any(text.endswith("MiB") for text in texts), texts
    check_looks(page, "past-jobs")
    page.get_by_role("combobox", name="State").select_option("COMPLETED")
    mine.wait_for(state="detached")
    assert rows.count() == 3 and "state=COMPLETED" in page.url
    page.get_by_role("combobox", name="State").select_option("")
    page.get_by_role("textbox", name="Name").fill("train")
    page.get_by_role("textbox", name="Name").press("Enter")
    wait_for_text(page, "1 job")
    page.get_by_text("Columns", exact=True).click()
    for title in ("Comment", "Submit line", "CPU time allocated"):
        page.get_by_label(title, exact=True).check()
    page.reload()
    mine.get_by_role("cell", name=HOSTILE, exact=True).wait_for()
    mine.get_by_role("link", name=str(job)).click()
    page.get_by_role("heading", name="train").wait_for()


def test_past_jobs_of_two_dates_and_of_nobody(web):
    page = web.opened("past?period=dates", "Past jobs")
    wait_for_text(page, "Choose two dates, the earlier one first.")
    page.get_by_label("First day").fill("2020-01-01")
    page.get_by_label("Last day").fill("2020-01-02")
    wait_for_text(page, "No job of this period passes these filters.")
    check_looks(page, "past-jobs-none")
