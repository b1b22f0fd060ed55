"""Families about accounts and limits: fair-share, and limits that are nearly used up.

Accounts have PenstockMetricsValuesMax values at most: those with most usage. Of limits only those that are used by at least
NEAR_FULL are shown, the fullest first; a site has thousands of others. Group limits (Grp*) of associations and QOS are those
that have a use of their own; limits of each job or user have none.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ctld.core.state.books import LimitBook
from ctld.core.state.fairshare import LEVEL_BITS, LEVEL_MAX, Assoc
from ctld.core.state.state import ClusterState
from penstock.exporter.exposition import MetricFamily, MetricSample, MetricType, gauge, labels
from penstock.exporter.pace import WorkPace
from penstock.values.limits import Limits

#: Part of a limit from which it is shown.
NEAR_FULL: Final = 0.8


class LimitUse(NamedTuple):
    """How far a group limit is used."""

    ratio: float
    kind: str  # account, user, qos
    name: str  # of a user: account/user
    limit: str  # sacctmgr's name, with the TRES


async def fair_share_families(state: ClusterState, values_max: int, pace: WorkPace) -> list[MetricFamily]:
    """Returns the shares and the usage of accounts, as parts of the cluster's, and their Fair Tree level."""
    await pace.begin()
    root = state.shares.root
    everything = root.total
    found: list[tuple[Assoc, float]] = []
    stack = [(root, 1.0)]
    async for assoc, shares in pace.over(_walk(stack)):
        if assoc.parent is not None:
            found.append((assoc, shares))
    found.sort(key=lambda one: (-one[0].total, one[0].account))
    shown = sorted(found[:values_max], key=lambda one: one[0].account)
    names = [labels({"account": assoc.account}) for assoc, _ in shown]
    used = [assoc.total / everything if everything else 0.0 for assoc, _ in shown]
    levels = [
        (name, one.level / 2.0**LEVEL_BITS)
        for name, (one, _) in zip(names, shown, strict=True)
        if one.level < LEVEL_MAX
    ]
    kind = MetricType.GAUGE
    return [
        MetricFamily("penstock_account_shares_ratio", kind, "Part of the cluster that an account's shares are",
                     [(name, shares) for name, (_, shares) in zip(names, shown, strict=True)]),
        MetricFamily("penstock_account_usage_ratio", kind, "Part of the cluster's decayed usage that is the account's",
                     list(zip(names, used, strict=True))),
        MetricFamily("penstock_account_level_fs", kind, "Shares by usage among its siblings, as sshare's LevelFS", levels),
    ]  # fmt: skip


def _walk(stack: list[tuple[Assoc, float]]) -> Iterator[tuple[Assoc, float]]:
    """Yields the accounts with their normalised shares, from the root."""
    while stack:
        assoc, shares = stack.pop()
        yield assoc, shares
        for child in assoc.children.values():
            if not child.user_name:
                part = child.shares / child.level_shares if child.shares >= 0 and child.level_shares else 1.0
                stack.append((child, shares * part))


async def limit_families(state: ClusterState, values_max: int, pace: WorkPace) -> list[MetricFamily]:
    """Returns the limits that are nearly used up, and their number."""
    await pace.begin()
    ledger = state.limits.ledger
    near: list[LimitUse] = []
    if ledger is not None:
        async for book in pace.over(list(ledger.books.values())):
            near += [use for use in _uses(state, book) if use.ratio >= NEAR_FULL]
    near.sort(key=lambda use: (-use.ratio, use.kind, use.name, use.limit))
    samples: list[MetricSample] = [
        (labels({"kind": use.kind, "entity": use.name, "limit": use.limit}), use.ratio)
        for use in sorted(near[:values_max])
    ]
    text = "Used part of a group limit of which at least four fifths are used"
    return [
        MetricFamily("penstock_limit_used_ratio", MetricType.GAUGE, text, samples),
        gauge("penstock_limits_near_full", "Group limits of which at least four fifths are used", len(near)),
    ]


def _uses(state: ClusterState, book: LimitBook) -> Iterator[LimitUse]:
    """Yields how far the limits of a book's association or QOS are used."""
    if book.key[0] == "assoc":
        assoc = state.shares.by_id.get(int(book.key[1]))
        if assoc is None:
            return
        kind = "user" if assoc.user_name else "account"
        name = f"{assoc.account}/{assoc.user_name}" if assoc.user_name else assoc.account
        limits = assoc.limits
    elif book.key[0] == "qos" and (qos := state.qos.get(str(book.key[1]))) is not None:
        kind = "qos"
        name = qos.name
        limits = qos.limits
    else:
        return
    for limit, used, most in _used(limits, book):
        if most > 0:
            yield LimitUse(used / most, kind, name, limit)


def _used(limits: Limits, book: LimitBook) -> Iterator[tuple[str, int, int]]:
    """Yields each group limit with its use and its amount; one that is not set has -1."""
    yield "GrpJobs", book.jobs, limits.grp_jobs
    yield "GrpSubmitJobs", book.submitted, limits.grp_submit_jobs
    for tres, most in limits.grp_tres:
        yield f"GrpTRES={tres}", book.tres.get(tres, 0), most
