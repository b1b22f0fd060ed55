"""Budgets of accounts as text: `1000gpu-hours/month`, `250.50EUR/quarter`, `none`. Pure.

AMOUNT UNIT / PERIOD, without spaces. The amount has at most two digits behind the point; the unit is hours of something,
or a word for money; the period is one after which the budget begins anew. What a budget means, and who is checked
against it, is the core's business.
"""

import re
from typing import Final

from penstock.values.errors import BadValue
from penstock.values.text import shown

PERIODS: Final = ("day", "week", "month", "quarter", "year", "none")
#: Units that count; every other word of letters is money.
HOURS: Final = ("gpu-hours", "cpu-hours", "billing-hours")
#: Texts that say: no budget.
NOTHING: Final = ("", "-1", "none")

_GRAMMAR: Final = re.compile(r"(\d{1,12}(?:\.\d{1,2})?)([A-Za-z][A-Za-z-]{0,31})/([a-z]+)")


def check_budget(text: str) -> str:
    """The text as it is kept; "" = none. Raises BadValue."""
    if text.lower() in NOTHING:
        return ""
    found = _GRAMMAR.fullmatch(text)
    if found is None or found[3] not in PERIODS or ("-" in found[2] and found[2].lower() not in HOURS):
        raise BadValue(
            f"Invalid budget {shown(text)}: write AMOUNT, UNIT and /PERIOD, as in 1000gpu-hours/month or 250.50EUR/quarter; "
            f"hours are {', '.join(HOURS)}; periods are {', '.join(PERIODS)}"
        )
    unit = found[2].lower() if found[2].lower() in HOURS else found[2]
    return f"{found[1]}{unit}/{found[3]}"
