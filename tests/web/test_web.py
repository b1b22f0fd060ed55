"""The web interface in a real browser at a real cluster: each page, each action with its effect, roles, hostile names, deep
links, a lost connection and its return. After `make test-full`, screenshots of every page are in build/web.
"""

import os
import re
import shlex
import signal
import time
from typing import TYPE_CHECKING

import pytest
from liverest import RESTD

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import (
    CHROMIUM,
    RULES_OF_COLOURS,
    WebPages,
    check_looks,
    cookies_of,
    save_picture,
    violations,
    wait_for_text,
)  # fmt: skip

from penstock.v1.controller_pb2 import SubmitJobRequest
from penstock.values.requestkey import new_request_key

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOSTILE = "<img src=x onerror=alert(1)>&amp;{{7*7}}'\""
SLEEP = ("--wrap", "sleep 600")


def fill(web: WebPages) -> dict[str, int]:
    """Jobs of every kind: running with GPUs, waiting for them, held, with a hostile name."""
    cluster = web.rest.cluster
    jobs = {
        "running": cluster.sbatch("-J", "train", "--gpus=6", "-n2", *SLEEP),
        "wide": cluster.sbatch("-J", "wide", "-N2", "--gpus-per-node=8", "-t", "60", *SLEEP),
        "held": cluster.sbatch("-J", HOSTILE, "--hold", *SLEEP),
    }
    cluster.wait_state(jobs["running"], "RUNNING")
    return jobs


def confirm(page: "Page", button: str, answer: str, text: str = "") -> None:
    """Presses an action's button, and confirms its question."""
    page.locator("header.page").get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    if text:
        dialog.get_by_role("textbox").fill(text)
    dialog.get_by_role("button", name=answer, exact=True).click()
    dialog.wait_for(state="detached")


def test_each_page_light_and_dark_narrow_and_wide(web):
    """Its heading, nothing for axe to find, nothing wider than a phone."""
    jobs = fill(web)
    places = {
        "overview": ("", "Overview"), "jobs": ("jobs", "Jobs"), "job-waits": (f"jobs/{jobs['wide']}", "wide"),
        "job-runs": (f"jobs/{jobs['running']}", "train"), "nodes": ("nodes", "Nodes"), "node": ("nodes/n1", "n1"),
        "nothing": ("none", "Nothing here"),
    }  # fmt: skip
    page = web.login()
    hidden = page.locator("nav").first.evaluate("nav => nav.scrollWidth - nav.clientWidth")
    assert hidden <= 0, f"{hidden} px of the pages' names cannot be seen without scrolling"
    for name, (where, heading) in places.items():
        web.open(page, where, heading)
        check_looks(page, name)
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Penstock").wait_for()
    assert violations(page) == []
    save_picture(page, "login-dark")


def test_what_is_hard_to_read_is_found(web):
    """The check of every page would fail: a picture without words, and grey on grey."""
    page = web.login()
    page.evaluate("""() => {
        const grey = document.createElement("p");
        grey.textContent = "grey";
        Object.assign(grey.style, { color: "#888", background: "#999" });
        document.querySelector("main").append(document.createElement("img"), grey);
    }""")
    assert {found.split(":")[0] for found in violations(page)} == {"image-alt", "color-contrast"}
    assert {found.split(":")[0] for found in violations(page, RULES_OF_COLOURS)} == {"color-contrast"}


def test_login_by_token_and_logout(web):
    page = web.new()
    page.goto(web.rest.url)
    page.get_by_label("Token").fill("a.b.c")
    page.get_by_role("button", name="Log in").click()
    wait_for_text(page, "the controller does not accept this token")
    page.get_by_label("Token").fill(f"SLURM_JWT={web.rest.token()}")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Overview").wait_for()
    (session,) = [one for name, one in cookies_of(page.context).items() if name.startswith("penstock_")]
    assert session["httpOnly"] and session["sameSite"] == "Strict"
    assert page.evaluate("Object.keys(localStorage).concat(Object.keys(sessionStorage))") == ["penstock.key"]
    assert page.evaluate("document.cookie") == ""
    token = web.rest.token()
    assert token not in (str(session["value"]), page.evaluate("localStorage.getItem('penstock.key')"))
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("localStorage.length") == 0
    assert not [name for name in cookies_of(page.context) if name.startswith("penstock_")]
    page.reload()
    page.get_by_label("Token").wait_for()


def test_the_form_of_passwords(web):
    """As it is where PAM is asked (this daemon has no helper, tests/security/test_05_passwords.py has one): what it sends, that a
    refused password is typed again, and that tokens are still taken."""
    page = web.new()
    ways = {"user": "", "cluster": "", "provider": "", "passwords": True}
    page.route("**/web/session", lambda route: route.fulfill(json=ways))
    page.goto(web.rest.url)
    page.get_by_label("User name").fill("ann ")
    page.get_by_label("Password").fill("correct horse")
    assert violations(page) == []
    save_picture(page, "login-password")
    with page.expect_request("**/web/login") as sent:
        page.get_by_role("button", name="Log in", exact=True).click()
    assert sent.value.post_data_json == {"user": "ann", "password": "correct horse"}
    wait_for_text(page, "there is no login by password here")
    save_picture(page, "login-refused")
    assert page.get_by_label("Password").input_value() == "" and page.get_by_label("User name").input_value() == "ann "
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    save_picture(page, "login-narrow")
    page.get_by_label("Token").fill(web.rest.token())
    page.get_by_role("button", name="Log in with a token").click()
    page.get_by_role("heading", name="Overview").wait_for()


def test_a_login_link_works_once_and_leaves_the_address(web):
    with web.rest.by_socket() as http:
        made = http.post("/web/link", headers={"X-SLURM-USER-TOKEN": web.rest.token()}).json()
    page = web.new()
    page.goto(f"{web.rest.url}/#login={made['secret']}")
    page.get_by_role("heading", name="Overview").wait_for()
    assert made["secret"] not in page.url
    other = web.new()
    other.goto(f"{web.rest.url}/#login={made['secret']}")
    wait_for_text(other, "this link was used already")
    assert made["secret"] not in other.url


def test_a_waiting_job_is_held_released_changed_and_cancelled(web):
    cluster = web.rest.cluster
    fill(web)
    job = cluster.sbatch("-J", "mine", "-N2", "--gpus-per-node=8", "-t", "60", *SLEEP)
    page = web.opened(f"jobs/{job}", "mine")
    wait_for_text(page, "Why it waits")
    confirm(page, "Hold", "Hold")
    page.locator("header.page").get_by_role("button", name="Release").wait_for()
    assert cluster.job(job).hold
    confirm(page, "Release", "Release")
    page.locator("header.page").get_by_role("button", name="Hold").wait_for()
    assert not cluster.job(job).hold
    confirm(page, "Time limit", "Change", "1:30:00")
    wait_for_text(page, "1 h 30 min")
    assert cluster.job(job).time_limit_s == 5400
    confirm(page, "Cancel", "Cancel the job")
    wait_for_text(page, "Cancelled")
    cluster.wait_state(job, "CANCELLED")


def test_a_suggestion_changes_the_job_and_it_starts(web):
    cluster = web.rest.cluster
    jobs = fill(web)
    page = web.opened(f"jobs/{jobs['wide']}", "wide")
    page.get_by_role("listitem").filter(has_text="starts now").get_by_role(
        "button", name="Change the job"
    ).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    cluster.wait_state(jobs["wide"], "RUNNING")
    page.locator("header.page .chip").get_by_text("Running").wait_for()


def test_a_running_job_is_requeued(web):
    cluster = web.rest.cluster
    jobs = fill(web)
    page = web.opened(f"jobs/{jobs['running']}", "train")
    wait_for_text(page, "GPU 0, GPU 1")
    confirm(page, "Requeue", "Requeue")
    cluster.wait(lambda: cluster.job(jobs["running"]).attempt == 1, "the job was requeued")
    wait_for_text(page, "Requeued")


def gpu_profile(gpus: int, points: int) -> dict[str, object]:
    """What the REST daemon answers of a step with GPUs, which this cluster does not have."""

    def metric(name: str, top: float, shift: int, part: float = 0.75) -> dict[str, object]:
        means: list[float | None] = [
            round(top * (part + 0.15 * ((7 * (at + shift)) % 11) / 11), 2) for at in range(points)
        ]
        means[points // 2] = None
        known = [one for one in means if one is not None]
        maxima = [None if one is None else min(top, one * 1.2) for one in means]
        return {"name": name, "mean": sum(known) / len(known), "max": top, "means": means, "maxima": maxima}

    host = [metric("cpu_cores", 16, 0), metric("memory_bytes", 90e9, 1), metric("read_bytes_per_second", 2e9, 2),
            metric("written_bytes_per_second", 3e8, 3)]  # fmt: skip
    tops = {"gpu_utilization_percent": 100, "gpu_memory_bytes": 140e9, "gpu_power_watts": 700,
            "gpu_temperature_celsius": 83}  # fmt: skip
    lines = [{"kind": "host", "device": "", "metrics": host}]
    for number in range(gpus):
        metrics = [metric(name, top, number, 0.1 * number + 0.1) for name, top in tops.items()]
        lines.append({"kind": "gpu", "device": f"GPU-{number}", "metrics": metrics})
    one = {
        "step": "0",
        "node": "n1",
        "start_at_us": 1_795_873_621_000_000,
        "interval_s": 60,
        "lines": lines,
        "tasks": [],
    }
    return {"job_id": 1, "profiles": [one], "errors": [], "warnings": []}


def test_steps_efficiency_and_charts_of_a_job(web):
    """Of real steps; then with the profile of a step with GPUs, whose charts are looked at in each colour and width."""
    cluster = web.rest.cluster
    script = f"srun --overlap -n1 -J {shlex.quote(HOSTILE)} sh -c 'exit 3'; srun --overlap -n2 -J fit sleep 600"
    job = cluster.sbatch("-J", "train", "-n2", "--acctg-freq=1", "--wrap", script)
    with web.rest.as_user() as client:
        cluster.wait(
            lambda: len(client.get(f"/penstock/v1/jobs/{job}/profile?step=1").json()["profiles"]) == 1, "a point"
        )
    page = web.opened(f"jobs/{job}", "train")
    rows = page.get_by_role("region", name="Steps").get_by_role("row")
    rows.filter(has_text="fit").filter(has_text="Running").wait_for()
    failed = rows.filter(has_text=HOSTILE)
    assert failed.filter(has_text="Failed").get_by_role("gridcell").all_inner_texts()[2] == "3"
    page.get_by_role("img", name=re.compile("^CPU over .*: mean ")).wait_for()
    page.get_by_role("img", name=re.compile("^Memory over .*: mean .*, highest .*iB$")).wait_for()
    page.get_by_label("Step", exact=True).select_option("batch")
    page.get_by_role("img", name=re.compile("^CPU over ")).wait_for()
    wait_for_text(page, "on 2 cores")
    page.route("**/profile?*", lambda route: route.fulfill(json=gpu_profile(8, 60)))
    page.get_by_label("Step", exact=True).select_option("1 fit")
    chart = page.get_by_role("img", name=re.compile("^GPU power over 1 h: GPU 0 mean .* W, highest 700 W; GPU 1 "))
    chart.focus()
    page.keyboard.press("ArrowRight")
    wait_for_text(page, "30 s after its start")
    chart.locator("canvas").wait_for()
    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.755, box["y"] + 20)
    wait_for_text(page, "45 min after its start")
    assert page.locator(".chart figcaption", has_text="45 min after its start").count() > 1  # all of the step
    check_looks(page, "job-use")
    for width, name in ((1280, "wide"), (360, "phone")):
        page.set_viewport_size({"width": width, "height": 2600})
        save_picture(page, f"job-use-{name}")
    page.set_viewport_size({"width": 1100, "height": 2600})
    page.emulate_media(color_scheme="light")
    save_picture(page.locator("section.card").filter(has_text="Use over time"), "job-use-charts")


def test_what_others_may_not_see_of_a_job_is_said(web):
    job = fill(web)["running"]
    page = web.opened(f"jobs/{job}", "train", "nobody")
    wait_for_text(page, "Nothing is measured yet.")
    refused = page.get_by_text(f"{job}.batch: Access/permission denied")
    refused.nth(1).wait_for()  # of the efficiency, and of the profile
    page.set_viewport_size({"width": 1280, "height": 1500})
    save_picture(page, "job-use-other")


def test_a_refusal_is_shown(web):
    jobs = fill(web)
    page = web.opened(f"jobs/{jobs['running']}", "train")
    page.locator("header.page").get_by_role("button", name="Time limit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("soon")
    dialog.get_by_role("button", name="Change").click()
    dialog.get_by_role("alert").get_by_text('"soon" is no time').wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_what_happens_on_the_cluster_is_shown(web):
    """Without a reload: a job that comes, starts and ends."""
    cluster = web.rest.cluster
    page = web.opened("jobs?state=RUNNING", "Jobs")
    job = cluster.sbatch("-J", "fresh", *SLEEP)
    page.get_by_role("link", name=str(job), exact=True).click()
    page.get_by_role("heading", name="fresh").wait_for()
    cluster.run("scancel", str(job)).ok()
    page.locator("header.page .chip").get_by_text("Cancelled").wait_for()


def test_hostile_names_are_text(web):
    fill(web)
    page = web.login()
    page.on("dialog", lambda dialog: web.problems.append(f"a script ran: {dialog.message}"))
    wait_for_text(page, HOSTILE)
    web.open(page, "jobs", "Jobs")
    page.get_by_role("cell", name=HOSTILE).first.wait_for()
    page.get_by_role("button", name="Copy CSV").click()
    wait_for_text(page, "Copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert HOSTILE.replace('"', '""') in text
    page.goto(f"{web.rest.url}/#/jobs/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    page.get_by_role("alert").wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_filter_sort_and_columns_are_in_the_address(web):
    jobs = fill(web)
    page = web.opened("jobs?q=train&state=RUNNING&sort=name&cols=id,name,gpus", "Jobs")
    page.get_by_role("link", name=str(jobs["running"]), exact=True).wait_for()
    assert page.get_by_role("columnheader").all_inner_texts() == ["Job", "Name ↑", "GPUs"]
    assert page.get_by_text("1 job", exact=True).is_visible()
    page.get_by_role("combobox", name="State").select_option("PENDING")
    page.get_by_role("searchbox").fill("wide")
    page.get_by_role("link", name=str(jobs["wide"]), exact=True).wait_for()
    page.get_by_role("button", name="GPUs").click()
    assert re.search(r"q=wide&state=PENDING&sort=gpus", page.url)
    page.get_by_role("region", name="Jobs").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="wide").wait_for()
    assert page.url.endswith(f"#/jobs/{jobs['wide']}")


def test_columns_that_few_look_at_are_asked_for_when_they_are_shown(web):
    cluster = web.rest.cluster
    first = cluster.sbatch(*SLEEP)
    job = cluster.sbatch("-J", "late", "--comment", HOSTILE, "-d", f"afterany:{first}", "--nice=7", *SLEEP)
    page = web.login()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    web.open(page, "jobs?q=late", "Jobs")
    page.get_by_role("cell", name="late", exact=True).wait_for()
    assert not any("/jobs/wide" in url for url in asked)
    page.get_by_text("Columns", exact=True).click()
    for title in ("Comment", "Dependency", "Nice", "Working directory"):
        page.get_by_label(title, exact=True).check()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=str(job), exact=True))
    row.get_by_role("cell", name=HOSTILE).wait_for()
    texts = row.get_by_role("cell").all_inner_texts()
    assert "7" in texts and any(f"afterany:{first}" in text for text in texts) and str(cluster.work) in texts, texts
    heads = page.get_by_role("columnheader")
    assert heads.filter(has_text="Comment").get_by_role("button").count() == 0  # rows are not sorted by it
    page.get_by_text("Columns", exact=True).click()
    check_looks(page, "jobs-wide")
    page.reload()
    row.get_by_role("cell", name=HOSTILE).wait_for()


def test_large_screens(web):
    """4K: nothing hangs out, and text is larger."""
    fill(web)
    page = web.login()
    page.set_viewport_size({"width": 3840, "height": 2160})
    for where, heading in (("", "Overview"), ("nodes", "Nodes"), ("jobs", "Jobs"), ("submit", "Submit a job")):
        web.open(page, where, heading)
        page.get_by_text("Loading").first.wait_for(state="detached")
        assert page.evaluate("document.documentElement.scrollWidth") <= 3840
        assert page.evaluate("getComputedStyle(document.body).fontSize") == "17px"
        assert violations(page) == []
        save_picture(page, f"4k-{where or 'overview'}")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_a_table_of_many_jobs_asks_for_what_is_in_sight(web):
    cluster = web.rest.cluster
    many = 650  # more than one window has
    spec = {"script": b"#!/bin/sh\ntrue\n", "environment": [b"A=1"]}
    for number in range(many):
        job = {"name": f"many{number}", "hold": True, "work_dir": b"/tmp"}
        key = new_request_key(time.time_ns() // 1000, os.urandom(10))
        cluster.call("SubmitJob", SubmitJobRequest(request_key=key, job=job, spec=spec))
    page = web.login()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    web.open(page, "jobs?q=many&sort=name", "Jobs")
    page.get_by_role("cell", name="many0", exact=True).wait_for()
    page.get_by_text(f"{many} jobs", exact=True).wait_for()
    table = page.get_by_role("region", name="Jobs")
    table.focus()
    page.keyboard.press("End")  # names in the order of texts
    page.get_by_role("cell", name="many99", exact=True).wait_for()
    page.keyboard.press("Home")
    page.get_by_role("cell", name="many0", exact=True).wait_for()
    page.get_by_role("button", name="Copy CSV").click()
    wait_for_text(page, "Copied")
    assert page.evaluate("navigator.clipboard.readText()").count("many") == many
    jobs = [url for url in asked if "/penstock/v1/jobs?" in url]
    assert jobs and all("count=" in url for url in jobs)
    page.get_by_role("searchbox").fill("x" * 65)
    page.get_by_role("alert").wait_for()
    page.get_by_role("searchbox").fill("many7 pending")
    page.get_by_role("cell", name="many7", exact=True).wait_for()


def test_a_node_is_drained_and_resumed(web):
    cluster = web.rest.cluster
    page = web.opened("nodes/n2", "n2")
    confirm(page, "Drain", "Drain", "fan <b>broken</b>")
    wait_for_text(page, "fan <b>broken</b>")
    assert cluster.node("n2").reason == "fan <b>broken</b>"
    web.open(page, "", "Overview")
    page.get_by_role("listitem").filter(has_text="fan <b>broken</b>").wait_for()
    save_picture(page, "overview-attention")
    web.open(page, "nodes/n2", "n2")
    confirm(page, "Resume", "Resume")
    page.locator("header.page .chip").get_by_text("Idle").wait_for()
    assert list(cluster.node("n2").flags) == []


def test_a_gpu_is_drained_and_resumed(web):
    """And no other one of its node."""
    cluster = web.rest.cluster
    page = web.opened("nodes/n1", "n1")
    for verb, reason in (("Drain", "hot"), ("Resume", "")):
        page.get_by_role("button", name=f"{verb} GPU 3", exact=True).click()
        dialog = page.get_by_role("dialog")
        if reason:
            dialog.get_by_role("textbox").fill(reason)
        dialog.get_by_role("button", name=verb, exact=True).click()
        dialog.wait_for(state="detached")
        other = {"Drain": "Resume", "Resume": "Drain"}[verb]
        page.get_by_role("button", name=f"{other} GPU 3", exact=True).wait_for()
        with web.rest.as_user() as client:
            gpus = client.get("/penstock/v1/gpus?nodes=n1").json()["gpus"]
        assert [one["reason"] for one in gpus] == [reason if one["index"] == 3 else "" for one in gpus]
        save_picture(page, f"gpu-{verb.lower()}")
    assert list(cluster.node("n1").flags) == []


def test_another_user_sees_and_may_not_touch(web):
    """The buttons are not there; and the daemon refuses a request that is sent nevertheless."""
    jobs = fill(web)
    page = web.login("nobody")
    wait_for_text(page, "You have no jobs.")
    web.open(page, f"jobs/{jobs['running']}", "train")
    wait_for_text(page, "Time line")
    assert page.locator("header.page").get_by_role("button").count() == 0
    web.open(page, "nodes/n1", "n1")
    assert page.locator("header.page").get_by_role("button").count() == 0
    answer = page.evaluate(
        """async (path) => {
            const answer = await fetch(path, {method: "DELETE", headers: {"X-Penstock-Web": localStorage.getItem("penstock.key")}});
            return [answer.status, await answer.text()];
        }""",
        f"/slurm/v0.0.46/job/{jobs['running']}",
    )
    assert "Access/permission denied" in answer[1], answer
    assert web.rest.cluster.job(jobs["running"]).state == "RUNNING"


def test_a_lost_connection_and_its_return(web):
    """The last state stays with a banner, and what happened meanwhile is shown when the daemon is back."""
    cluster = web.rest.cluster
    jobs = fill(web)
    page = web.opened(f"jobs/{jobs['running']}", "train")
    wait_for_text(page, "GPU 0, GPU 1")
    cluster.kill(RESTD, number=signal.SIGTERM)
    cluster.wait_death(RESTD)
    wait_for_text(page, "The connection is lost.")
    save_picture(page, "lost")
    assert page.get_by_role("heading", name="train").is_visible()
    cluster.run("scancel", str(jobs["running"])).ok()
    cluster.wait_ends(jobs["running"])
    web.rest.start()
    page.get_by_text("The connection is lost.").wait_for(state="detached")
    page.locator("header.page .chip").get_by_text("Cancelled").wait_for()
