"""Policies by name or by choices, for the engines replay and nodes.

A policy of choices is written as `backfill=easy,candidates=smallest`; docs/simulator.md has the tables.
"""

from collections.abc import Mapping

from _fastsched import BACKFILLS, NODE_ORDERS, NODE_POLICIES, ORDERS, POLICIES, PREDICTORS, ReplayPolicy
from _fastsched.replay_contract import AGED_FACTOR_MAX, AGED_S_MAX
from penstock.values.errors import BadValue

Choices = Mapping[str, Mapping[str, int] | range]


def _choices(orders: Mapping[str, int]) -> Choices:
    return {
        "order": orders,
        "backfill": BACKFILLS,
        "candidates": orders,
        "predictor": PREDICTORS,
        "ranker": PREDICTORS,
        "aged_factor": range(AGED_FACTOR_MAX + 1),
        "aged_max_s": range(AGED_S_MAX + 1),
    }


def policy_of(text: str) -> ReplayPolicy:
    """A policy of engine replay."""
    return _parsed(text, POLICIES, _choices(ORDERS))


def node_policy(text: str) -> ReplayPolicy:
    """A policy of engine nodes."""
    found = _parsed(text, NODE_POLICIES, _choices(NODE_ORDERS))
    if found.backfill == BACKFILLS["conservative"] or found.predictor:
        raise BadValue(f"policy {text!r}: engine nodes has backfill none and easy, and predictor given")
    return found


def _parsed(text: str, policies: Mapping[str, ReplayPolicy], known: Choices) -> ReplayPolicy:
    if (name := text.replace("++", "pp")) in policies:
        return policies[name]
    choices: dict[str, int] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals or name not in known:
            raise BadValue(
                f"policy {text!r}: there are {', '.join(policies)}, or choices as backfill=easy,candidates=shortest"
            )
        values = known[name]
        if isinstance(values, range):
            if not value.isascii() or not value.isdigit() or int(value) not in values:
                raise BadValue(f"policy {text!r}: {name} is a number from 0 to {values[-1]}")
        elif value not in values:
            raise BadValue(f"policy {text!r}: {name} is one of {', '.join(values)}")
        choices[name] = int(value) if isinstance(values, range) else values[value]
    return ReplayPolicy(**choices)  # type: ignore[arg-type]
