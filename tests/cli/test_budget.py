"""`penstock budget` with made-up answers: what it asks, and its lines."""

import json
from typing import Any

import pytest

from cli.subcommands import budget
from penstock.v1.governance_pb2 import BudgetInfo, ListBudgetsReply
from tests.cli.fake_controller import FakeClient, run_body

REPLY = ListBudgetsReply(
    budgets=[
        BudgetInfo(account="lab", amount="1000", unit="gpu-hours", period="month", used=512.3, reserved=44, period_start_us=1,
                   period_end_us=1_796_083_200_000_000),
        BudgetInfo(account="lab", amount="250.50", unit="EUR", period="none", used=300),
    ]
)  # fmt: skip


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_its_lines(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    fake = FakeClient(ListBudgets=REPLY).install(monkeypatch)
    status, out, err = run_body(capsys, "penstock budget", budget.main, "-A", "lab,uni")
    assert (status, err) == (0, "") and list(fake.request.accounts) == ["lab", "uni"]
    assert out.splitlines() == [
        "ACCOUNT  BUDGET  UNIT       PERIOD    USED  RESERVED    LEFT        UNTIL",
        "lab        1000  gpu-hours  month   512.30     44.00  443.70   44%  2026-12-01T00:00:00",
        "lab      250.50  EUR        none    300.00      0.00  -49.50  -20%  -",
    ]


def test_without_budgets_as_json_and_with_a_wrong_word(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    FakeClient(ListBudgets=ListBudgetsReply()).install(monkeypatch)
    assert run_body(capsys, "penstock budget", budget.main) == (0, "no account has a budget\n", "")
    assert run_body(capsys, "penstock budget", budget.main, "lab")[0] == 1
    FakeClient(ListBudgets=REPLY).install(monkeypatch)
    document = json.loads(run_body(capsys, "penstock budget", budget.main, "--json")[1])
    assert [one["amount"] for one in document["budgets"]] == ["1000", "250.50"]


def test_a_budget_that_binds_nobody_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    reply = ListBudgetsReply(
        budgets=[BudgetInfo(account="lab", amount="5", unit="EUR", period="none", problem="no prices")]
    )
    FakeClient(ListBudgets=reply).install(monkeypatch)
    status, out, err = run_body(capsys, "penstock budget", budget.main)
    assert (status, err) == (0, "penstock budget: warning: lab: 5 EUR has no effect: no prices\n") and "lab" in out


def test_accounts_without_a_budget_and_no_account(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    FakeClient(ListBudgets=ListBudgetsReply()).install(monkeypatch)
    assert run_body(capsys, "penstock budget", budget.main, "-A", "lab,uni") == (0, "lab, uni: no budget\n", "")
    assert run_body(capsys, "penstock budget", budget.main, "-A", ",")[0] == 1
