"""penstock policy apply on a real core: what is asked, what is made, and what is said when the answer is lost."""

import io
from pathlib import Path
from typing import Any

import pytest

from cli.subcommands import policy
from penstock.errors import RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, PenstockError, Unreachable
from tests.cli.coreworld import CoreClient
from tests.cli.fake_controller import run_body

ASKED = "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): "
PLAN = "+ qos gold: Priority=5\n+ account lab: Fairshare=3\n"
LOST = Unreachable(RECEIVE_FAILURE_TEXT, "", RECEIVE_FAILURE)


class Site:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.opened: list[dict[str, Any]] = []
        self.client = CoreClient()
        self.file = folder / "site.yaml"
        self.file.write_text("qos:\n  gold: {Priority: 5}\naccounts:\n  lab: {Fairshare: 3}\n")

        def opened(timeout_s: float = 10.0, *, retry: bool = False) -> CoreClient:
            self.opened.append({"timeout_s": timeout_s, "retry": retry})
            return self.client

        monkeypatch.setattr("penstock.client.Client.open", opened)

    @property
    def is_changed(self) -> bool:
        return "lab" in self.client.world.core.state.shares.accounts


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    return Site(monkeypatch, tmp_path)


def apply(site: Site, capsys: Any, *more: str) -> tuple[int, str, str]:
    return run_body(capsys, "penstock", policy.main, "apply", str(site.file), *more)


@pytest.mark.parametrize("answer", ["n\n", "", "maybe\nNo\n"])
def test_discarded_as_sacctmgr_does(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any, answer: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    status, out, err = apply(site, capsys)
    assert (status, err) == (0, "") and out.startswith(PLAN + ASKED) and out.endswith(" Changes Discarded\n")
    assert not site.is_changed


def test_agreed_and_nothing_left(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert apply(site, capsys) == (0, f"{PLAN}{ASKED}Done: 2 changes in one transaction.\n", "")
    assert site.is_changed
    assert apply(site, capsys, "--yes")[1] == "The cluster is as the file says: nothing to change.\n"


def test_a_controller_that_restarts_is_waited_for_where_nobody_watches(site: Site, capsys: Any) -> None:
    """A user at a terminal gets the error at once that there is no controller."""
    apply(site, capsys, "--yes")
    apply(site, capsys)
    run_body(capsys, "penstock", policy.main, "plan", str(site.file), "--days=0")
    assert site.opened == [
        {"timeout_s": 60.0, "retry": True}, {"timeout_s": 60.0, "retry": False}, {"timeout_s": 10.0, "retry": False},
    ]  # fmt: skip


@pytest.mark.parametrize("failure", [LOST, PenstockError(9012, "The QOS exists already: gold")])
def test_done_is_done_whatever_became_of_the_answer(site: Site, capsys: Any, failure: PenstockError) -> None:
    """The controller ended between commit and reply; a request that is sent once more is refused then."""
    real = site.client.answers["ChangeMany"]

    def lose(request: Any) -> Any:
        reply = real(request)
        if not request.check_only:
            raise failure
        return reply

    site.client.answers["ChangeMany"] = lose
    assert apply(site, capsys, "--yes") == (0, f"{PLAN}Done: 2 changes in one transaction.\n", "")


def test_without_an_answer_nobody_knows(site: Site, capsys: Any) -> None:
    real = site.client.answers["ChangeMany"]
    site.client.answers["ChangeMany"] = lambda request: real(request) if request.check_only else LOST
    status, _, err = apply(site, capsys, "--yes")
    told = f"penstock: error: {RECEIVE_FAILURE_TEXT}\npenstock: no answer; `penstock policy plan` shows what is not done yet\n"
    assert (status, err) == (1, told) and not site.is_changed


def test_a_refusal_changes_nothing(site: Site, capsys: Any) -> None:
    site.client.user = "ann"
    status, _, err = apply(site, capsys, "--yes")
    assert status == 1 and err.startswith("penstock: error: nothing was changed: Access/permission denied: ")
    assert not site.is_changed


@pytest.mark.parametrize("days", ["x", "\u00b2", "-1", "367", "", "9" * 5000])
def test_days_that_are_no_number(site: Site, capsys: Any, days: str) -> None:
    status, _, err = run_body(capsys, "penstock", policy.main, "plan", str(site.file), f"--days={days}")
    assert status == 1 and err.startswith("penstock: error: Invalid --days: ") and "(allowed: 0 to 366)" in err
