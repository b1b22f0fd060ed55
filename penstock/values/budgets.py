"""Parses budgets of accounts: `1000gpu-hours/month`, `250.50EUR/quarter`, several with commas, `none`. Pure.

A budget is AMOUNT UNIT / PERIOD, without spaces. The amount has at most two decimals. The unit is hours of a resource,
or the name of a currency. The budget is renewed at the start of each period; `none` never renews it. An account has at
most one budget of each unit and period. ctld/core/limits/budgets.py defines how budgets are applied.
"""

import re
from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.text import shown

PERIODS: Final = ("day", "week", "month", "quarter", "year", "none")
#: Units of resource hours; every other word of letters is a currency.
HOURS: Final = ("gpu-hours", "cpu-hours", "billing-hours")
#: Texts that mean no budget.
NOTHING: Final = ("", "-1", "none")
#: Budgets per account.
BUDGETS_MAX: Final = 8
#: Digits before the decimal point: enough for a century of a million GPUs.
DIGITS_MAX: Final = 12

_GRAMMAR: Final = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})(?:\.([0-9]{{1,2}}))?([A-Za-z][A-Za-z-]{{0,31}})/([a-z]+)")
#: The accepted syntax, as every refusal quotes it.
ALLOWED: Final = (
    "write AMOUNT, UNIT and /PERIOD, as in 1000gpu-hours/month or 250.50EUR/quarter; "
    f"an amount has at most {DIGITS_MAX} digits, and at most two behind a point; "
    f"hours are {', '.join(HOURS)}; periods are {', '.join(PERIODS)}; `none` takes budgets away"
)


class Budget(NamedTuple):
    """One budget of an account."""

    hundredths: int  # hundredths of the unit
    unit: str
    period: str

    @property
    def is_money(self) -> bool:
        """Whether usage is converted by prices."""
        return self.unit not in HOURS

    def amount(self) -> str:
        """Formats the amount without its unit."""
        whole, part = divmod(self.hundredths, 100)
        return f"{whole}.{part:02d}" if part else str(whole)


def parse_budgets(text: str) -> tuple[Budget, ...]:
    """Parses budgets; () = none. Raises BadValue."""
    if text.lower() in NOTHING:
        return ()
    items = text.split(",", BUDGETS_MAX)
    if len(items) > BUDGETS_MAX:
        raise BadValue(f"Invalid budget: more than {BUDGETS_MAX} of one account")
    found = tuple(_parse_one(item) for item in items)
    if len({(budget.unit, budget.period) for budget in found}) < len(found):
        raise BadValue(f"Invalid budget {shown(text)}: a unit and period stand in it twice")
    return found


def _parse_one(text: str) -> Budget:
    found = _GRAMMAR.fullmatch(text)
    if found is None or found[4] not in PERIODS or ("-" in found[3] and found[3].lower() not in HOURS):
        raise BadValue(f"Invalid budget {shown(text)}: {ALLOWED}")
    unit = found[3].lower() if found[3].lower() in HOURS else found[3]
    return Budget(int(found[1]) * 100 + int((found[2] or "").ljust(2, "0")), unit, found[4])


def why_unpaid(budget: Budget, currency: str, has_prices: bool) -> str:
    """Returns why a budget of money would have no effect, and the key to set; "" if it is charged.

    `currency`: the cluster's PenstockCurrency. `has_prices`: whether any partition has PenstockPrices.
    """
    if not budget.is_money:
        return ""
    if not currency:
        return (
            f"{shown(budget.unit)} is no unit, since slurm.conf has no PenstockCurrency; hours are {', '.join(HOURS)}"
        )
    if budget.unit != currency:
        hours = ", ".join(HOURS)
        return f"{shown(budget.unit)} is no unit: money is {currency} here (PenstockCurrency); hours are {hours}"
    if not has_prices:
        return "nothing has a price: set PenstockPrices on the line of a partition in slurm.conf"
    return ""


def check_budget(text: str) -> str:
    """Normalises the text of budgets; "" = none. Raises BadValue."""
    return ",".join(f"{budget.amount()}{budget.unit}/{budget.period}" for budget in parse_budgets(text))
