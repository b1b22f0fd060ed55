"""Reservations and QOS made, changed and removed in the browser, by each role; each effect is looked up with a command."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks

if TYPE_CHECKING:
    from livecluster import LiveCluster
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
USER, OPERATOR = "nobody", "sys"
HOSTILE = "<img src onerror>'\""
SEND = """async ([method, path, body]) => {
    const headers = {"X-Penstock-Web": localStorage.getItem("penstock.key"), "Content-Type": "application/json"};
    const answer = await fetch(path, {method, headers, body: JSON.stringify(body)});
    return await answer.text();
}"""


def reserved(cluster: "LiveCluster", name: str = "") -> dict[str, str]:
    """What scontrol shows of a reservation, by key; nothing where there is none."""
    shown = cluster.run("scontrol", "-o", "show", "reservation", *([name] if name else [])).out
    return dict(word.partition("=")[::2] for word in shown.split()) if "ReservationName=" in shown else {}


def opened(page: "Page", button: str) -> "Locator":
    page.get_by_role("button", name=button, exact=True).click()
    return page.get_by_role("dialog")


def confirmed(dialog: "Locator", button: str) -> None:
    dialog.get_by_role("button", name=button, exact=True).click()
    dialog.wait_for(state="detached")


def lines(dialog: "Locator") -> list[str]:
    return dialog.get_by_role("list", name="What changes").get_by_role("listitem").all_inner_texts()


def test_an_operator_makes_changes_and_removes_a_reservation(web, roles):
    page = web.opened("reservations", "Reservations", OPERATOR)
    dialog = opened(page, "New reservation")
    reserve = dialog.get_by_role("button", name="Reserve", exact=True)
    dialog.get_by_label("Length").fill("soon")
    dialog.get_by_text('"soon" is no time').wait_for()
    reserve.click()
    dialog.get_by_text("Nothing was sent: correct first what is marked.").wait_for()
    dialog.get_by_label("Length").fill("2:00:00")
    dialog.get_by_label("Name").fill("course")
    dialog.get_by_label("Start").fill("2031-03-01T14:00")
    dialog.get_by_label("Nodes", exact=True).fill("n9")
    dialog.get_by_label("Users", exact=True).fill(USER)
    reserve.click()
    field = dialog.locator(".field").filter(has_text="Nodes").first
    field.get_by_text("Invalid node name specified").wait_for()
    check_looks(page, "reservation-refused")
    dialog.get_by_label("Nodes", exact=True).fill("n1")
    dialog.get_by_label("Repeated").select_option("WEEKLY")
    dialog.get_by_label("Its users may remove it").check()
    assert lines(dialog)[0] == "Name: course" and lines(dialog)[-1] == "Rules: user delete", lines(dialog)
    check_looks(page, "reservation-new")
    confirmed(dialog, "Reserve")
    page.get_by_role("row").filter(has_text="course").wait_for()
    found = reserved(roles, "course")
    assert (found["Nodes"], found["Users"], found["Duration"]) == ("n1", USER, "02:00:00")
    assert found["StartTime"].startswith("2031-03-01T")
    assert set(found["Flags"].split(",")) == {"WEEKLY", "SPEC_NODES", "USER_DELETE"}

    dialog = opened(page, "New reservation")
    dialog.get_by_label("Name").fill("course")
    dialog.get_by_label("Nodes", exact=True).fill("n2")
    dialog.get_by_role("button", name="Reserve", exact=True).click()
    taken = "The name course is taken: write another one."
    dialog.locator(".field").filter(has_text="Name").first.get_by_text(taken).wait_for()
    dialog.get_by_role("button", name="Back").click()
    assert reserved(roles, "course")["Nodes"] == "n1"

    dialog = opened(page, "Change course")
    assert lines(dialog) == ["Nothing is changed yet."]
    dialog.get_by_label("Length").fill("1-00:00:00")
    dialog.get_by_label("Nodes", exact=True).fill("n[1-2]")
    dialog.get_by_label("Accounts", exact=True).fill("lab")
    dialog.get_by_label("Users", exact=True).fill("")
    dialog.get_by_label("Repeated").select_option("")
    dialog.get_by_label("Jobs may run on its nodes").check()
    assert lines(dialog) == [
        "Length: 02:00:00 → 1-00:00:00", "Repeated: weekly → none", "Nodes: n1 → n[1-2]", f"Users: {USER} → none",
        "Accounts: none → lab", "Rules: user delete → ignore jobs, user delete",
    ]  # fmt: skip
    check_looks(page, "reservation-change")
    confirmed(dialog, "Change")
    page.get_by_role("row").filter(has_text="course").get_by_text("n[1-2]").wait_for()
    found = reserved(roles, "course")
    assert (found["Nodes"], found["Users"], found["Accounts"], found["Duration"]) == (
        "n[1-2]",
        "(null)",
        "lab",
        "1-00:00:00",
    )
    assert set(found["Flags"].split(",")) == {"IGNORE_JOBS", "SPEC_NODES", "USER_DELETE"}

    dialog = opened(page, "Change course")
    dialog.get_by_role("button", name="Remove", exact=True).click()
    check_looks(page, "reservation-remove")
    confirmed(dialog, "Remove the reservation")
    page.get_by_text("Nothing is reserved.").wait_for()
    assert reserved(roles) == {}


def test_a_reservation_from_now_on_of_any_node_with_a_hostile_name(web, roles):
    page = web.opened("reservations", "Reservations")
    dialog = opened(page, "New reservation")
    dialog.get_by_label("Name").fill(HOSTILE)
    dialog.get_by_label("Length").fill("30")
    dialog.get_by_label("Number of nodes").fill("1")
    dialog.get_by_label("Accounts", exact=True).fill("-lab")
    dialog.get_by_label("Comment").fill(HOSTILE)
    confirmed(dialog, "Reserve")
    page.get_by_role("row").filter(has_text=HOSTILE).get_by_text("Active").wait_for()
    dialog = opened(page, f"Change {HOSTILE}")
    dialog.get_by_role("heading", name=f"Change reservation {HOSTILE}").wait_for()
    dialog.get_by_text("The controller has chosen n").wait_for()
    dialog.get_by_label("Start").fill("2031-03-01T14:00")
    dialog.get_by_role("button", name="Change", exact=True).click()
    dialog.locator(".field").filter(has_text="Start").get_by_text("it has begun").wait_for()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    confirmed(dialog, "Remove the reservation")
    page.get_by_text("Nothing is reserved.").wait_for()
    assert page.locator("img[onerror]").count() == 0
    assert reserved(roles) == {}


def test_a_user_makes_no_reservation_and_removes_one_that_allows_it(web, roles):
    for name, flags in (("theirs", "USER_DELETE"), ("other", "IGNORE_JOBS")):
        words = (f"reservationname={name}", "starttime=now+1hour", "duration=60", f"users={USER}")
        roles.run("scontrol", "create", "reservation", *words, "nodes=n1", f"flags={flags},OVERLAP").ok()
    page = web.opened("reservations", "Reservations", USER)
    page.get_by_role("row").filter(has_text="other").wait_for()
    assert page.get_by_role("button", name="New reservation").count() == 0
    assert page.get_by_role("button", name="Change other").count() == 0
    slurm = "/slurm/v0.0.46"
    for method, path, body in (
        ("POST", f"{slurm}/reservation", {"name": "mine", "start_time": 1_930_000_000, "duration": 60, "users": [USER], "node_list": ["n1"]}),
        ("POST", f"{slurm}/reservation", {"name": "other", "duration": 5}),
        ("DELETE", f"{slurm}/reservation/other", None),
    ):  # fmt: skip
        assert "Access/permission denied" in page.evaluate(SEND, [method, path, body]), path
    dialog = opened(page, "Change theirs")
    assert dialog.get_by_role("button", name="Settings").count() == 0
    confirmed(dialog, "Remove the reservation")
    page.get_by_role("row").filter(has_text="theirs").wait_for(state="detached")
    assert reserved(roles)["ReservationName"] == "other"
    roles.run("scontrol", "delete", "reservation=other").ok()


def test_an_operator_makes_changes_and_removes_a_qos(web, roles):
    """A user sees no form, and is refused; what is no name is said, and a name that only looks like one is text."""

    def shown(name: str) -> str:
        fields = "format=name,priority,maxwall,grptres,maxjobspu"
        return roles.run("sacctmgr", "-nP", "show", "qos", "where", f"name={name}", fields).ok().out.strip()

    page = web.opened("qos", "QOS", OPERATOR)
    dialog = opened(page, "New QOS")
    dialog.get_by_label("Name").fill(HOSTILE)
    dialog.get_by_text("is no name of a QOS").wait_for()
    dialog.get_by_label("Name").fill("burst")
    dialog.get_by_label("Priority").fill("50")
    dialog.get_by_label("Longest job").fill("1-0")
    dialog.get_by_label("Most in all").fill("gres/none=4")
    dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.locator(".field").filter(has_text="Most in all").get_by_text("there is no TRES").wait_for()
    assert shown("burst") == ""
    dialog.get_by_label("Most in all").fill("gres/gpu=4,cpu=8")
    dialog.get_by_label("Description").fill(HOSTILE)
    check_looks(page, "qos-new")
    roles.run("sacctmgr", "-i", "add", "qos", "burst", "description=meanwhile").ok()  # by another person
    dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.locator(".field").filter(has_text="Name").first.get_by_text(
        "The name burst is taken: write another one."
    ).wait_for()
    check_looks(page, "qos-taken")
    assert shown("burst") == "burst|0|||"
    roles.run("sacctmgr", "-i", "delete", "qos", "burst").ok()
    confirmed(dialog, "Add")
    page.get_by_role("row").filter(has_text="burst").get_by_text(HOSTILE).wait_for()
    assert shown("burst") == "burst|50|1-00:00:00|cpu=8,gres/gpu=4|"

    dialog = opened(page, "Change burst")
    dialog.get_by_label("Longest job").fill("")
    dialog.get_by_label("Most in all").fill("cpu=8")
    dialog.get_by_label("Running per user").fill("3")
    assert lines(dialog) == [
        "Longest job: 1-00:00:00 → none", "Running per user: none → 3", "Most in all: cpu=8,gres/gpu=4 → cpu=8",
    ]  # fmt: skip
    check_looks(page, "qos-change")
    confirmed(dialog, "Change")
    page.get_by_role("row").filter(has_text="burst").get_by_text("cpu=8", exact=True).wait_for()
    assert shown("burst") == "burst|50||cpu=8|3"

    other = web.opened("qos", "QOS", USER)
    other.get_by_role("row").filter(has_text="burst").wait_for()
    assert (
        other.get_by_role("button", name="Change burst").count() + other.get_by_role("button", name="New QOS").count()
        == 0
    )
    for method, path, body in (
        ("POST", "/slurmdb/v0.0.46/qos", {"qos": [{"name": "burst", "description": "mine"}]}),
        ("DELETE", "/slurmdb/v0.0.46/qos/burst", None),
    ):
        assert "Access/permission denied" in other.evaluate(SEND, [method, path, body]), path
    assert shown("burst") == "burst|50||cpu=8|3"

    dialog = opened(page, "Change burst")
    dialog.get_by_role("button", name="Remove", exact=True).click()
    confirmed(dialog, "Remove the QOS")
    page.get_by_role("row").filter(has_text="burst").wait_for(state="detached")
    assert shown("burst") == ""
    assert page.locator("img[onerror]").count() == 0
