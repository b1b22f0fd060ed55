"""The page Policy: a text is planned, its effect replayed, and applied by who may; a plan that is no longer true is refused."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, save_picture, wait_for_text

if TYPE_CHECKING:
    from livecluster import LiveCluster
    from playwright.sync_api import Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
USER, COORDINATOR = "nobody", "bin"
HOSTILE = "<img src=x onerror=alert(1)>"


def policy(shares: int) -> str:
    return f"accounts:\n  team: {{Parent: lab, Fairshare: {shares}, GrpTRES: {{gres/gpu: 8}}}}\n  fresh: {{}}\n"


def shares_of(cluster: "LiveCluster", account: str) -> str:
    words = ("-nP", "show", "assoc", "where", f"account={account}", "format=user,fairshare,grptres")
    return cluster.run("sacctmgr", *words).ok().out.partition("\n")[0]


def plan(page: "Page", text: str) -> None:
    page.get_by_role("textbox", name="Policy").fill(text)
    page.get_by_role("button", name="Plan", exact=True).click()


def changes(page: "Page") -> list[str]:
    """The rows of the difference, below their head."""
    rows = page.get_by_role("region", name="Changes").get_by_role("row")
    rows.nth(1).wait_for()
    return [" ".join(text.split()) for text in rows.all_inner_texts()[1:]]


def test_an_administrator_plans_replays_and_applies(web, roles):
    roles.wait_ends(roles.sbatch("-A", "other", "--wrap", "true"))
    page = web.opened("accounts", "Accounts")
    page.get_by_role("link", name="Policy as a file").click()
    page.get_by_role("heading", name="Policy", level=1).wait_for()
    box = page.get_by_role("textbox", name="Policy")
    box.wait_for()
    assert "team:" in box.input_value() and "MaxJobs: '3'" in box.input_value()  # what penstock policy export prints
    check_looks(page, "policy")
    page.get_by_role("button", name="Plan", exact=True).click()
    wait_for_text(page, "The cluster is as the text says: nothing to change.")

    plan(page, policy(9))
    assert changes(page) == [
        "Added account fresh",
        "Changed account team Fairshare: 1 → 9 GrpTRES: none → gres/gpu=8",
    ]
    page.get_by_role("button", name="Replay").click()
    waits = page.get_by_role("region", name="Waits by account")
    waits.get_by_role("row").filter(has_text="other").wait_for()
    check_looks(page, "policy-plan")
    assert shares_of(roles, "team") == "|1|"
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("heading", name="Apply this policy?").wait_for()
    save_picture(page, "policy-apply")
    dialog.get_by_role("button", name="Make 2 changes").click()
    wait_for_text(page, "Done: 2 changes in one transaction.")
    assert shares_of(roles, "team") == "|9|gres/gpu=8" and shares_of(roles, "fresh") == "|1|"


def test_a_stale_plan_is_refused(web, roles):
    page = web.opened("policy", "Policy")
    plan(page, policy(21))
    changes(page)
    roles.run("sacctmgr", "-i", "modify", "account", "team", "set", "fairshare=5").ok()
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Make ").click()
    dialog.get_by_text("the cluster is no longer as it was when this was planned").wait_for()
    save_picture(page, "policy-stale")
    dialog.get_by_role("button", name="Back").click()
    assert shares_of(roles, "team").startswith("|5|")
    page.get_by_role("textbox", name="Policy").fill(policy(22))
    wait_for_text(page, "The text has changed since it was planned: plan it again.")
    assert page.get_by_role("button", name="Apply").count() == 0


def test_mistakes_stand_at_their_lines_and_names_are_text(web, roles):
    page = web.opened("policy", "Policy")
    plan(page, f"accounts:\n  team: {{Nosuch: 1}}\n  lab: {{MaxJobs: '{HOSTILE}'}}\n")
    said = page.get_by_role("list", name="About the policy")
    said.get_by_text("there is no key Nosuch").wait_for()
    assert said.get_by_role("button").all_inner_texts() == ["Line 2", "Line 3"]
    check_looks(page, "policy-wrong")
    plan(page, f"accounts:\n  '{HOSTILE}': {{}}\n")
    wait_for_text(page, "Invalid account name")
    assert HOSTILE in changes(page)[0] and page.locator("img[src=x]").count() == 0
    assert page.get_by_role("button", name="Apply").count() == 0


def test_who_may_not_apply_is_told_so_by_the_controller(web, roles):
    text = "accounts:\n  team: {Parent: lab, MaxJobs: 4}\n"
    page = web.opened("policy", "Policy", USER)
    plan(page, text)
    wait_for_text(page, "The controller would not make it for you. Access/permission denied")
    assert "MaxJobs: none → 4" in changes(page)[0]
    assert page.get_by_role("button", name="Apply").count() == 0
    save_picture(page, "policy-refused")
    page = web.login(COORDINATOR)  # it is below their account
    web.open(page, "policy", "Policy")
    plan(page, text)
    page.get_by_role("button", name="Apply").wait_for()
