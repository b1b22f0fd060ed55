"""Changes of accounts on the page Accounts, by each role: a coordinator, an operator, the administrator, and a user without rights.

Each change is looked up at the cluster as sacctmgr shows it, and what must stay is looked up with it.
"""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, save_picture, wait_for_text

if TYPE_CHECKING:
    from livecluster import LiveCluster
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
USER, COORDINATOR, OPERATOR = "nobody", "bin", "sys"
HOSTILE = "<img src=x onerror=alert(1)>'\""
SEND = """async ([method, path, body]) => {
    const headers = {"X-Penstock-Web": localStorage.getItem("penstock.key"), "Content-Type": "application/json"};
    const answer = await fetch(path, {method, headers, body: JSON.stringify(body)});
    return await answer.text();
}"""


def shown(cluster: "LiveCluster", fields: str, *where: str) -> str:
    """Associations as sacctmgr shows what is their own."""
    words = ("-nP", "show", "assoc", "where", *where, f"format={fields}", "WOPLimits")
    return cluster.run("sacctmgr", *words).ok().out.strip()


def opened(page: "Page", name: str) -> "Locator":
    """The dialog of a row."""
    page.get_by_role("button", name=f"Change {name}", exact=True).click()
    return page.get_by_role("dialog")


def confirmed(dialog: "Locator", button: str = "Change") -> None:
    dialog.get_by_role("button", name=button, exact=True).click()
    dialog.wait_for(state="detached")


def changeable(page: "Page") -> list[str]:
    """The rows that have a button, by their names."""
    buttons = page.get_by_role("region", name="Accounts").get_by_role("button", name="Change ")
    return sorted((one.get_attribute("aria-label") or "").removeprefix("Change ") for one in buttons.all())


def test_a_coordinator_changes_what_is_below_the_account(web, roles):
    page = web.opened("accounts", "Accounts", COORDINATOR)
    page.get_by_role("link", name=USER).wait_for()
    assert changeable(page) == ["account lab", "account team", f"{COORDINATOR} in lab", f"{USER} in team"]
    dialog = opened(page, "account lab")
    assert dialog.get_by_role("button", name="Settings").count() == 0  # it is not below itself
    dialog.get_by_role("button", name="Back").click()

    dialog = opened(page, f"{USER} in team")
    dialog.get_by_label("Longest job").fill("tomorrow")
    dialog.get_by_text('"tomorrow" is no time').wait_for()
    dialog.get_by_role("button", name="Change", exact=True).click()
    dialog.get_by_text("Nothing was sent: correct first what is marked.").wait_for()
    check_looks(page, "account-wrong")
    dialog.get_by_label("Longest job").fill("1-12")
    dialog.get_by_label("Running jobs").fill("5")
    dialog.get_by_label("Most per job").fill("cpu=4, mem=64G")
    lines = dialog.get_by_role("list", name="What changes").get_by_role("listitem").all_inner_texts()
    assert lines == ["Running jobs: 3 → 5", "Longest job: none → 1-12:00:00", "Most per job: none → cpu=4,mem=64G"]
    check_looks(page, "account-change")
    confirmed(dialog)
    page.get_by_role("row").filter(has_text=USER).get_by_text("1 d 12 h").wait_for()  # the tree has it
    fields = "maxjobs,maxwall,maxtresperjob"
    assert shown(roles, fields, "account=team", f"user={USER}") == "5|1-12:00:00|cpu=4,mem=64G"

    dialog = opened(page, f"{USER} in team")
    dialog.get_by_label("Running jobs").fill("")
    dialog.get_by_label("Most per job").fill("mem=64G")
    confirmed(dialog)
    page.get_by_role("row").filter(has_text=USER).get_by_text("mem=64 GiB", exact=True).wait_for()
    assert shown(roles, fields, "account=team", f"user={USER}") == "|1-12:00:00|mem=64G"


def test_a_coordinator_changes_an_account_below_and_no_user_of_it(web, roles):
    page = web.opened("accounts", "Accounts", COORDINATOR)
    before = shown(roles, "maxjobs,maxsubmit,fairshare", "account=team", f"user={USER}")
    dialog = opened(page, "account team")
    dialog.get_by_label("Jobs in the queue").fill("20")
    dialog.get_by_label("Shares").fill("7")
    dialog.get_by_label("Description").fill("a team")
    confirmed(dialog)
    page.get_by_role("row").filter(has_text="team").get_by_text("7", exact=True).first.wait_for()
    assert "|20|7" in shown(roles, "user,maxsubmit,fairshare", "account=team").splitlines()
    assert shown(roles, "maxjobs,maxsubmit,fairshare", "account=team", f"user={USER}") == before
    assert roles.run("sacctmgr", "-nP", "show", "account", "team", "format=descr").ok().out.strip() == "a team"


def test_what_the_controller_refuses_stands_at_its_field(web, roles):
    page = web.opened("accounts", "Accounts", COORDINATOR)
    before = shown(roles, "maxjobs,grptres", "account=team")
    dialog = opened(page, f"{USER} in team")
    dialog.get_by_label("Running jobs").fill("11")
    dialog.get_by_role("button", name="Change", exact=True).click()
    dialog.get_by_text("Nothing was changed: see Running jobs.").wait_for()
    assert dialog.get_by_label("Running jobs").evaluate("one => one === document.activeElement")
    field = dialog.locator(".field").filter(has_text="Running jobs")
    field.get_by_text("MaxJobs=11 is beyond what account lab has: 10").wait_for()
    save_picture(page, "account-refused")
    dialog.get_by_label("Running jobs").fill("3")
    field.get_by_text("is beyond").wait_for(state="detached")
    dialog.get_by_label("Most in all").fill("gres/none=1")
    dialog.get_by_role("button", name="Change", exact=True).click()
    dialog.locator(".field").filter(has_text="Most in all").get_by_text("there is no TRES").wait_for()
    assert shown(roles, "maxjobs,grptres", "account=team") == before


def test_a_coordinator_adds_and_removes_below_the_account(web, roles):
    page = web.opened("accounts", "Accounts", COORDINATOR)
    dialog = opened(page, "account lab")
    dialog.get_by_role("button", name="Add an account").click()
    dialog.get_by_label("Account").fill("Sub Team")
    dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.get_by_text('"Sub Team" is no name of an account').wait_for()
    dialog.get_by_label("Account").fill("subteam")
    dialog.get_by_label("Description").fill(HOSTILE)
    confirmed(dialog, "Add")
    dialog = opened(page, "account subteam")
    dialog.get_by_role("button", name="Add a user").click()
    dialog.get_by_label("User").fill("daemon")
    save_picture(page, "account-add")
    confirmed(dialog, "Add")
    page.get_by_role("link", name="daemon").wait_for()
    assert shown(roles, "parentname,user", "account=subteam") == "lab|\n|daemon"
    dialog = opened(page, "account subteam")
    assert dialog.get_by_label("Description").input_value() == HOSTILE
    dialog.get_by_role("button", name="Add a user").click()
    dialog.get_by_label("User").fill("daemon")
    dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.get_by_text("Nothing was changed: daemon is in subteam already.").wait_for()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    dialog.get_by_text("1 user is in it or below it, and 0 accounts are below it: all go with it.").wait_for()
    check_looks(page, "account-remove")
    confirmed(dialog, "Remove the account")
    page.get_by_role("link", name="daemon").wait_for(state="detached")
    assert shown(roles, "account", "account=subteam") == ""


def test_an_operator_and_the_administrator_change_all(web, roles):
    for user, shares in ((OPERATOR, "11"), ("", "12")):
        page = web.opened("accounts", "Accounts", user)
        page.get_by_role("link", name=USER).wait_for()
        assert {"account root", "account lab", "account other", f"{OPERATOR} in other"} <= set(changeable(page))
        dialog = opened(page, "account other")
        dialog.get_by_label("Shares").fill(shares)
        dialog.get_by_label("QOS", exact=True).fill("normal")
        confirmed(dialog)
        page.get_by_role("row").filter(has_text="other").get_by_text(shares, exact=True).first.wait_for()
        assert shown(roles, "user,fairshare", "account=other").splitlines()[0] == f"|{shares}"
    dialog = opened(page, "account root")
    dialog.get_by_label("Jobs in the queue").fill("5000")
    confirmed(dialog)
    assert roles.run("sacctmgr", "-nP", "show", "cluster", "format=maxsubmit").ok().out.strip() == "5000"
    roles.run("sacctmgr", "-i", "modify", "cluster", "set", "maxsubmitjobs=-1").ok()


def test_a_user_sees_no_button_and_is_refused(web, roles):
    page = web.opened("accounts", "Accounts", USER)
    page.get_by_role("link", name=USER).first.wait_for()
    assert changeable(page) == []
    before = shown(roles, "account,user,maxjobs,fairshare")
    db = "/slurmdb/v0.0.46"
    for method, path, body in (
        ("POST", f"{db}/associations", {"associations": [{"account": "team", "user": USER, "shares_raw": 99}]}),
        ("POST", f"{db}/accounts", {"accounts": [{"name": "team", "description": "mine", "organization": ""}]}),
        ("DELETE", f"{db}/account/team", None),
    ):
        assert "Access/permission denied" in page.evaluate(SEND, [method, path, body]), path
    assert shown(roles, "account,user,maxjobs,fairshare") == before


def test_hostile_names_are_text(web, roles):
    """The controller accepts no such name; what is shown is then the test's."""
    page = web.login()
    with web.rest.as_user() as client:
        real = client.get("/slurmdb/v0.0.46/associations").json()
    odd = next(one for one in real["associations"] if one["account"] == "team" and not one["user"]) | {
        "id": 999,
        "account": HOSTILE,
    }
    page.route(
        "**/slurmdb/v0.0.46/associations",
        lambda route: route.fulfill(json=real | {"associations": [*real["associations"], odd]}),
    )
    web.open(page, "accounts", "Accounts")
    dialog = opened(page, f"account {HOSTILE}")
    dialog.get_by_role("heading", name=f"Change account {HOSTILE}").wait_for()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    wait_for_text(page, f"Remove account {HOSTILE}?")
    assert page.locator("img[src=x]").count() == 0
