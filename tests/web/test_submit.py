"""The form that submits jobs: it and the script write each other, the planner's answer stands beside them, and what is submitted
is the job that they describe.
"""

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, wait_for_text

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOSTILE = "<img src=x onerror=alert(1)>&amp;'\""
SUBMIT = "**/slurm/v0.0.46/job/submit"


def field(page: "Page", label: str, text: str) -> None:
    page.get_by_label(label, exact=True).fill(text)


def script(page: "Page") -> str:
    return page.get_by_label("Script", exact=True).input_value()


def submit(page: "Page") -> int:
    """Presses the button; the job whose page opens."""
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(r"#/jobs/\d+$"))
    return int(page.url.rpartition("/")[2])


def test_the_form_light_and_dark_narrow_and_wide(web):
    page = web.opened("submit", "Submit a job")
    wait_for_text(page, "Now:")
    page.get_by_role("group", name="What is free now").get_by_role("button").first.wait_for()
    check_looks(page, "submit")
    field(page, "Partition", "none")
    wait_for_text(page, "It would be refused.")
    wait_for_text(page, "Invalid partition name specified: none")
    check_looks(page, "submit-refused")


def test_form_and_script_write_each_other_and_the_job_is_theirs(web):
    cluster = web.rest.cluster
    page = web.opened("submit", "Submit a job")
    page.get_by_label("Script", exact=True).fill("#!/bin/sh\n#SBATCH -c 2 --comment='a b'\nsleep 600\n")
    assert page.get_by_label("CPUs per task").input_value() == "2"
    for label, text in {
        "Name": HOSTILE, "GPUs": "2", "Memory per node": "1G", "Time limit": "1:30:00",
        "Working directory": str(cluster.work),
    }.items():  # fmt: skip
        field(page, label, text)
    assert "#SBATCH --gpus=2\n" in script(page) and "#SBATCH -c 2 --comment='a b'\n" in script(page)
    wait_for_text(page, "Now:")
    job = submit(page)
    page.get_by_role("heading", name=HOSTILE).wait_for()
    cluster.wait_state(job, "RUNNING")
    asked = cluster.job(job).request
    assert (asked.name, asked.cpus_per_task, asked.comment) == (HOSTILE, 2, "a b")
    assert cluster.job(job).time_limit_s == 5400 and "gres/gpu=2" in cluster.job(job).tres_alloc


def test_a_script_from_a_file(web, tmp_path):
    """It fills the form and is submitted; with DOS line breaks it is made one that runs; what is no script is refused with the
    reason, and the script that is there stays."""
    cluster = web.rest.cluster
    files = {
        "train.sh": b"#!/bin/sh\n#SBATCH --job-name=from-file --cpus-per-task=2\necho '\xc3\xbc'\n",
        "dos.sh": b"#!/bin/sh\r\n#SBATCH --job-name=dos\r\necho done\r\n",
        "a.out": b"\x7fELF\x02\x01\x01\x00",
        "latin1.sh": b"#!/bin/sh\necho '\xfc'\n",
        "empty.sh": b"",
        "data.bin": b"#" * (4 * 1024 * 1024 + 1),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    page = web.opened("submit", "Submit a job")

    def upload(name: str) -> None:
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Open a file").click()
        chooser.value.set_files(tmp_path / name)

    upload("train.sh")
    page.wait_for_function("document.querySelector('textarea.script').value.includes('from-file')")
    assert script(page) == files["train.sh"].decode() and page.get_by_label("CPUs per task").input_value() == "2"
    for name, reason in {
        "data.bin": "data.bin has 4.0 MiB. A script has 4 MiB at most", "a.out": "a.out is a binary file and no script",
        "latin1.sh": "latin1.sh is not in UTF-8", "empty.sh": "empty.sh is empty",
    }.items():  # fmt: skip
        upload(name)
        page.get_by_role("alert").get_by_text(reason).wait_for()
        assert script(page) == files["train.sh"].decode(), name
    check_looks(page, "submit-file")
    upload("dos.sh")
    page.get_by_role("status").get_by_text("dos.sh had DOS line breaks").wait_for()
    assert page.get_by_role("alert").count() == 0
    field(page, "Working directory", str(cluster.work))
    wait_for_text(page, "Now:")
    job = submit(page)
    page.get_by_role("heading", name="dos").wait_for()
    cluster.wait_state(job, "COMPLETED")
    assert (cluster.work / f"slurm-{job}.out").read_text() == "done\n"


def test_templates_of_the_site_and_of_the_user(web):
    """One click fills the form; what a user keeps is in this browser alone, also after a log out."""
    page = web.login()
    web.rest.logged("template 'broken.sh' is left out: its first line is no #! line")
    web.open(page, "submit", "Submit a job")
    site = page.get_by_role("list", name="Templates of the site")
    site.get_by_text("all GPUs of a node").wait_for()
    page.get_by_role("button", name="Use PyTorch <one node>").click()
    assert page.get_by_label("GPUs", exact=True).input_value() == "8"
    field(page, "Name", HOSTILE)
    page.get_by_role("button", name="Keep this script").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Title").fill(HOSTILE)
    dialog.get_by_role("button", name="Keep", exact=True).click()
    dialog.wait_for(state="detached")
    check_looks(page, "submit-templates")
    page.reload()
    mine = page.get_by_role("list", name="My templates")
    mine.get_by_role("button", name="Use").click()
    assert page.get_by_label("Name", exact=True).input_value() == HOSTILE
    mine.get_by_role("button", name="Remove").click()
    mine.wait_for(state="detached")
    with web.rest.as_user(token="x.y.z") as client:  # the folder is for users of the cluster
        assert client.get("/penstock/v1/templates").status_code == 401


def test_the_planner_says_when_and_where(web):
    cluster = web.rest.cluster
    blocker = cluster.sbatch("-N2", "--exclusive", "-t", "60", "--wrap", "sleep 600")
    cluster.wait_state(blocker, "RUNNING")
    page = web.opened("submit", "Submit a job")
    page.get_by_text(re.compile(r"^in (1 h|\d+ min)")).first.wait_for()
    cluster.run("scancel", str(blocker)).ok()
    cluster.wait_ends(blocker)
    field(page, "Tasks", "3")
    wait_for_text(page, "Now:")
    assert not cluster.run("squeue", "-h").ok().out.strip()  # a question queues nothing


def test_refusals_stand_where_they_belong(web):
    page = web.opened("submit", "Submit a job")
    field(page, "Time limit", "soon")
    wait_for_text(page, 'Line 3: --time: "soon" cannot be read')
    assert page.get_by_role("button", name="Submit", exact=True).is_disabled()
    field(page, "Time limit", "10")
    field(page, "Dependency", "nonsense")
    page.locator(".field", has_text="Dependency").get_by_role("alert").wait_for()
    field(page, "Dependency", "")
    page.get_by_label("Script", exact=True).fill("hostname\n")
    page.get_by_role("alert").get_by_text("#!").wait_for()
    page.get_by_label("Script", exact=True).fill("#!/bin/sh\n")
    field(page, "Partition", "<script>alert(1)</script>")
    wait_for_text(page, "It would be refused.")
    page.get_by_role("button", name="Submit", exact=True).click()
    wait_for_text(page, "It was not submitted.")
    assert page.locator(".notice.bad").count() >= 1


@pytest.mark.parametrize("by_proxy", [False, True], ids=["connection", "proxy"])
def test_a_submission_whose_answer_is_lost_is_made_once(web, by_proxy):
    """The page repeats it with the same key."""
    cluster = web.rest.cluster
    page = web.opened("submit", "Submit a job")
    keys: list[str | None] = []

    def lose(route: "Route") -> None:
        keys.append(route.request.header_value("Idempotency-Key"))
        route.fetch()
        if by_proxy:
            route.fulfill(status=502, body="Bad Gateway")
        else:
            route.abort("connectionreset")

    name = "once-by-proxy" if by_proxy else "once"
    page.route(SUBMIT, lose)
    field(page, "Name", name)
    wait_for_text(page, "Now:")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.locator(".notice.bad").first.wait_for()
    page.unroute(SUBMIT)
    with page.expect_request(lambda one: "job/submit" in one.url) as again:
        job = submit(page)
    keys.append(again.value.header_value("Idempotency-Key"))
    assert len(keys) == 2 and keys[0] == keys[1]
    listed = cluster.run("squeue", "-h", "-t", "all", "-n", name, "-o", "%A").ok().out.split()
    assert listed == [str(job)]


def test_a_job_is_submitted_again(web):
    """With its script, and with what the command line asked for; by who may see the script."""
    cluster = web.rest.cluster
    job = cluster.sbatch("-J", "first", "-t", "60", "--gpus=1", "--mem=100M", "--hold", "--wrap", "sleep 600")
    page = web.opened(f"jobs/{job}", "first")
    page.get_by_role("link", name="Submit again").click()
    page.get_by_role("heading", name="Submit again").wait_for()
    assert page.get_by_label("GPUs", exact=True).input_value() == "1"
    assert "sleep 600" in script(page)
    wait_for_text(page, "Now:")
    again = submit(page)
    assert again != job and cluster.job(again).request.name == "first"
    assert cluster.job(again).time_limit_s == 3600
    web.open(page, "submit", "Submit a job")
    page.get_by_role("link", name=f"Submit job {job} again").click()
    page.get_by_role("heading", name=f"Submit again {job}").wait_for()
    other = web.opened(f"jobs/{job}", "first", "nobody")
    wait_for_text(other, "Time line")
    assert other.get_by_role("link", name="Submit again").count() == 0
    web.open(other, f"submit?from={job}", "Submit a job")
    other.get_by_role("alert").wait_for()


def test_findings_stand_at_their_lines(web):
    """As the script is written, beside what the form says itself; a click leads to the place."""
    page = web.opened("submit", "Submit a job")
    area = page.get_by_label("Script", exact=True)
    area.fill(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBasks --ntasks-per-node=8\n#SBATCH --tiem=10\n#SBATCH -J \U0001f600\\ run#<b>\n"
        "srun torchrun --nproc_per_node=8 a\n"
    )
    about = page.get_by_role("list", name="About the script")
    about.get_by_text("is not #SBATCH, so this line is a comment").wait_for()
    about.get_by_text("64 processes on a node").wait_for()
    assert [one.partition(":")[0] for one in about.get_by_role("listitem").all_inner_texts()] == [
        "Line 3", "Line 4", "Line 5", "Line 6",
    ]  # fmt: skip
    assert about.get_by_text("--time=10", exact=True).is_visible()
    marks = page.locator(".editor .marks span")
    assert marks.evaluate_all("all => all.map(one => [one.dataset.line, one.className])") == [
        ["3", "wait"], ["4", "bad"], ["5", "wait"], ["6", "wait"],
    ]  # fmt: skip
    box, top = marks.nth(1).bounding_box(), area.bounding_box()
    assert box and top and abs(box["y"] - top["y"] - 1 - 12 - 3 * 22) < 1.5
    check_looks(page, "submit-lint")
    about.get_by_role("button", name="Line 5").click()
    before = area.evaluate("one => one.value.slice(0, one.selectionStart)")
    assert before.endswith("#SBATCH -J \U0001f600\\ ")
    area.fill("#!/bin/bash\n#SBATCH --nodes=2\nhostname\n")
    about.get_by_role("listitem").first.wait_for(state="detached")
    assert marks.count() == 0


def test_the_environment_of_a_job_is_shown_when_it_is_asked_for(web):
    """To its owner, and not to others, as its script; nothing of it is fetched before."""
    cluster = web.rest.cluster
    held = {"name": "held", "hold": True, "current_working_directory": "/tmp", "script": "#!/bin/sh\n",
            "environment": ["PATH=/bin", "SECRET_WORD=<b>hush</b>"]}  # fmt: skip
    with web.rest.as_user("nobody") as client:
        job = client.post("/slurm/v0.0.46/job/submit", json={"job": held}).json()["job_id"]
    try:
        for user, sees in (("nobody", True), ("", True), ("daemon", False)):
            page = web.login(user)
            asked: list[str] = []
            page.on("request", lambda one, asked=asked: asked.append(one.url))
            web.open(page, f"jobs/{job}", "held")
            card = page.locator("section.card").filter(has=page.get_by_role("heading", name="Environment"))
            card.get_by_text("They may hold secrets").wait_for()
            assert not [url for url in asked if url.endswith("/environment")] and "hush" not in page.content()
            card.get_by_role("button", name="Show").click()
            if sees:
                card.get_by_text("SECRET_WORD=<b>hush</b>").wait_for()
                check_looks(page, "job-environment")
                card.get_by_role("button", name="Hide").click()
                assert "hush" not in card.inner_text()
            else:
                card.get_by_text("Access/permission denied").wait_for()
    finally:
        cluster.run("scancel", str(job)).ok()
