"""Each limit of the table (penstock/values/limits.py) is known wherever limits are set, checked, shown and stored."""

from pathlib import Path

import pytest

from cli.accounts import fields, file, grammar, values
from ctld.core.limits.rules import LimitRules, rules
from penstock.values.limits import LIMITS, Limit, LimitKind
from tests.core.limitscript import set_limits
from tests.core.world import World, make_config

DOCS = Path(__file__).parents[2] / "docs"
#: Not of the kind that is checked when a job comes or starts: how high it must rank, and what an account lends.
OTHERWISE = {"min_prio_threshold", "lend", "borrow"}
NAMES = [limit.keyword for limit in LIMITS]


def rules_with(of: str) -> LimitRules:
    """What applies to a job where every limit of an association, or of a QOS, is set."""
    world = World(make_config(enforce=("associations", "limits")))
    where = {"qos": "normal"} if of == "of_qos" else {"account": "root", "user": "ann"}
    known = {limit.name: "cpu=1" if limit.kind is LimitKind.TRES else "1" for limit in LIMITS if getattr(limit, of)}
    set_limits(world, where, known)
    state = world.core.state
    return rules(state, state.shares.find("root", "ann", "debug"), "normal", "debug", "ann")


@pytest.mark.parametrize("of", ["of_assoc", "of_qos"])
def test_a_limit_that_is_set_is_checked(of: str) -> None:
    found = rules_with(of)
    checked = {check.field for check in (*found.start, *found.submit, *found.accrue)}
    wanted = {limit.field for limit in LIMITS if getattr(limit, of)} - OTHERWISE
    assert checked == wanted, f"{sorted(checked ^ wanted)}: a row of _OF_ASSOC or _OF_QOS in ctld/core/limits/rules.py"


@pytest.mark.parametrize("limit", LIMITS, ids=NAMES)
def test_sacctmgr_knows_it(limit: Limit) -> None:
    tables = {
        "cli/accounts/grammar.py (_OF_ASSOC, _GROUP or _MAX)": (limit.of_assoc, grammar.ACCOUNT.settings),
        "cli/accounts/grammar.py (QOS or _MAX)": (limit.of_qos, grammar.QOS.settings),
        "cli/accounts/file.py (_LIMITS)": (limit.of_assoc, file.OPTIONS["account"]),
    }
    for place, (is_wanted, known) in tables.items():
        assert not is_wanted or limit.name in {word.key for word in known}, f"{limit.keyword} is missing in {place}"
    for table, is_wanted in (("ASSOC_LABELS", limit.of_assoc), ("QOS_LABELS", limit.of_qos)):
        labels = dict(getattr(values, table))
        assert not is_wanted or limit.name in labels, f"{limit.keyword} is missing in cli/accounts/values.py ({table})"
    field = fields.find_field(limit.name)
    assert field is not None and field.key == limit.name, f"{limit.keyword} is missing in cli/accounts/fields.py"


@pytest.mark.parametrize("limit", LIMITS, ids=NAMES)
def test_it_is_written_down(limit: Limit) -> None:
    text = "".join((DOCS / page).read_text(encoding="utf-8").lower() for page in ("limits.md", "borrowing.md"))
    names = (limit.name, *limit.also)
    assert any(name in text for name in names), f"{limit.keyword} is missing in the table of docs/limits.md"
