"""Usage that halves, and Fair Tree's published guarantees, on hand-worked and random trees."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.accounts.draft import Draft
from ctld.core.records.decay import ONE, RATE_ONE, USAGE_ONE, Decay, carry, half_power
from ctld.core.state.fairshare import LEVEL_BITS, LEVEL_MAX, PARENT_SHARES, Assoc, ShareTree
from ctld.core.state.state import ClusterState
from ctld.core.state.usage_resets import DAY_US, last_reset_us
from tests.core.world import World

US = 1_000_000
WEEK_US = 7 * 86_400 * US


def test_a_half_life_halves() -> None:
    assert half_power(0, 7) == ONE
    assert half_power(7, 7) == ONE // 2
    assert half_power(70, 7) == ONE >> 10
    assert half_power(10**9, 7) == 0


@given(st.integers(0, 10**14), st.integers(1, 10**13))
def test_powers_are_those_of_the_floating_point_unit(numerator: int, denominator: int) -> None:
    exact = 2.0 ** -(numerator / denominator)
    assert half_power(numerator, denominator) / ONE == pytest.approx(exact, rel=1e-12, abs=1e-17)


def test_a_rate_is_the_integral() -> None:
    assert carry(0, 4 * RATE_ONE, 0, 3600 * US, 0) == 4 * 3600 * USAGE_ONE
    week_s = WEEK_US // US
    expected = week_s / math.log(2) * (1 - 0.5)
    assert carry(0, RATE_ONE, 0, WEEK_US, WEEK_US) / USAGE_ONE == pytest.approx(expected, rel=1e-9)
    assert carry(USAGE_ONE * 1000, 0, 0, WEEK_US, WEEK_US) == USAGE_ONE * 500


@given(
    st.integers(0, 10**15), st.integers(0, 10**7), st.lists(st.integers(0, 10**12), min_size=1, max_size=20),
    st.sampled_from([0, 3600 * US, WEEK_US]),
)  # fmt: skip
def test_many_steps_are_one_step(usage: int, rate: int, steps: list[int], half_life_us: int) -> None:
    at_us, many = 0, usage
    for step in steps:
        many = carry(many, rate, at_us, at_us + step, half_life_us)
        at_us += step
    once = carry(usage, rate, 0, at_us, half_life_us)
    assert abs(many - once) <= len(steps) + 1 + once * 1e-8


@pytest.mark.parametrize(
    ("period", "days"),
    [
        ("NONE", 0),
        ("NOW", 0),
        ("DAILY", 20_410),
        ("WEEKLY", 20_408),
        ("MONTHLY", 20_393),
        ("QUARTERLY", 20_362),
        ("YEARLY", 20_089),
    ],
)
def test_resets_by_the_calendar(period: str, days: int) -> None:
    """2025-11-18, a Tuesday, is day 20410."""
    assert last_reset_us(period, 20_410 * DAY_US + 5 * 3600 * US) == days * DAY_US


@given(st.integers(0, 80_000))
def test_months_are_those_of_the_calendar(day: int) -> None:
    import datetime

    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
    first = datetime.date(date.year, date.month, 1)
    assert last_reset_us("MONTHLY", day * DAY_US) == (first - datetime.date(1970, 1, 1)).days * DAY_US


def plant(*lines: str) -> ShareTree:
    """`account parent shares` or `account/user shares usage` in billing seconds, without decay."""
    tree = ShareTree()
    tree.decay = Decay(0)
    for line in lines:
        name, *rest = line.split()
        account, _, user = name.partition("/")
        if user:
            assoc = tree.add(account, user, tree.accounts[account], int(rest[0]))
            assoc.usage = int(rest[1]) * USAGE_ONE
        else:
            tree.add(account, "", tree.accounts[rest[0]], int(rest[1]))
    return tree


def order(tree: ShareTree) -> str:
    tree.rank(0)
    users = sorted(tree.users.values(), key=lambda a: (-a.factor[0], a.assoc_id))
    return " ".join(f"{a.user_name}={a.factor[0]}/{a.factor[1]}" for a in users)


def test_users_of_the_better_account_come_first() -> None:
    tree = plant(
        "physics root 50", "bio root 50",
        "physics/ann 1 900", "physics/bob 1 100",
        "bio/cid 1 999", "bio/dan 1 0",
    )  # fmt: skip
    assert order(tree) == "dan=4/4 cid=3/4 bob=2/4 ann=1/4"
    physics, bob = tree.accounts["physics"], tree.users["physics", "bob"]
    assert physics.level == (50 * 1999 << LEVEL_BITS) // (100 * 1000)  # S / U = (50/100) / (1000/1999)
    assert bob.level / 2**LEVEL_BITS == pytest.approx(0.5 / 0.1)
    assert tree.users["bio", "dan"].level == LEVEL_MAX


def test_equal_users_have_one_rank_and_the_next_goes_down_by_their_number() -> None:
    tree = plant("a root 1", "a/u1 1 5", "a/u2 1 5", "a/u3 1 1", "a/u4 1 50")
    assert order(tree) == "u3=4/4 u1=3/4 u2=3/4 u4=1/4"


def test_children_of_equal_accounts_are_put_together() -> None:
    tree = plant(
        "a root 1", "b root 1",
        "a/a1 1 10", "a/a2 1 90",
        "b/b1 1 20", "b/b2 1 80",
    )  # fmt: skip
    assert order(tree) == "a1=4/4 b1=3/4 b2=2/4 a2=1/4"


def test_a_user_equal_to_an_account_has_the_rank_of_its_best_user() -> None:
    tree = plant("a root 1", "root/rob 1 100", "a/a1 1 30", "a/a2 1 70")
    assert order(tree) == "rob=3/3 a1=3/3 a2=1/3"


def test_without_shares_last_and_without_usage_first() -> None:
    tree = plant("a root 1", "a/none 0 0", "a/idle 1 0", "a/busy 5 1")
    assert order(tree) == "idle=3/3 busy=2/3 none=1/3"


def test_children_of_an_account_with_its_parents_shares_compete_above() -> None:
    plain = plant("top root 1", "sub top -1", "top/t 1 10", "sub/s 3 10", "sub/r 1 5")
    assert order(plain) == "s=3/3 r=2/3 t=1/3"
    assert plain.users["sub", "s"].level_shares == 5
    assert PARENT_SHARES == -1


def test_a_user_with_his_parents_shares_stands_as_high_as_the_account() -> None:
    tree = plant("a root 1", "b root 1", "a/x -1 10", "a/y 1 30", "b/z 1 60")
    tree.rank(0)
    assert tree.users["a", "x"].level == tree.accounts["a"].level


@st.composite
def trees(draw: st.DrawFn) -> ShareTree:
    tree = ShareTree()
    tree.decay = Decay(0)
    accounts = ["root"]
    for number in range(draw(st.integers(0, 8))):
        name = f"acct{number}"
        tree.add(name, "", tree.accounts[draw(st.sampled_from(accounts))], draw(st.integers(0, 4)))
        accounts.append(name)
    for number in range(draw(st.integers(1, 15))):
        account = draw(st.sampled_from(accounts))
        user = tree.add(account, f"user{number}", tree.accounts[account], draw(st.integers(0, 4)))
        user.usage = draw(st.sampled_from([0, 1, 5, 5, 20, 100]))
    return tree


def users_below(assoc: Assoc) -> list[Assoc]:
    found = [assoc] if assoc.user_name else []
    for child in assoc.children.values():
        found += users_below(child)
    return found


@settings(max_examples=200)
@given(trees())
def test_better_level_means_that_all_users_come_before_all_of_the_siblings(tree: ShareTree) -> None:
    tree.rank(0)
    for account in tree.accounts.values():
        siblings = list(account.children.values())
        for one in siblings:
            for other in siblings:
                if one.level > other.level:
                    worst = min((u.factor[0] for u in users_below(one)), default=0)
                    best = max((u.factor[0] for u in users_below(other)), default=0)
                    assert not worst or worst > best or not best
    ranks = [assoc.factor for assoc in tree.users.values()]
    assert all(below == len(tree.users) and 1 <= above <= below for above, below in ranks)


@settings(max_examples=100)
@given(trees())
def test_more_usage_never_helps(tree: ShareTree) -> None:
    tree.rank(0)
    user = next(iter(tree.users.values()))
    before = user.factor[0]
    others_ahead = sum(u.factor[0] > before for u in tree.users.values())
    user.usage += 1000
    tree.rank(0)
    assert sum(u.factor[0] > user.factor[0] for u in tree.users.values()) >= others_ahead or user.shares == 0


@settings(max_examples=100)
@given(trees())
def test_an_accounts_usage_is_all_that_is_below(tree: ShareTree) -> None:
    tree.rank(0)
    for account in tree.accounts.values():
        assert account.total == sum(u.usage for u in users_below(account))


def test_classic_is_two_to_the_minus_usage_by_share() -> None:
    tree = plant("a root 3", "b root 1", "a/ann 1 30", "b/bob 1 70")
    tree.rank(0, fair_tree=False)
    ann, bob = tree.users["a", "ann"].factor, tree.users["b", "bob"].factor
    # right below root what counts is what was used: account a 0.3 and ann has all of it; share 0.75
    assert ann[0] / ann[1] == pytest.approx(2 ** -(0.3 / 0.75), rel=1e-9)
    assert bob[0] / bob[1] == pytest.approx(2 ** -(0.7 / 0.25), rel=1e-9)
    tree.rank(0, fair_tree=False, dampening=5)
    bob = tree.users["b", "bob"].factor
    assert bob[0] / bob[1] == pytest.approx(2 ** -(0.7 / 0.25 / 5), rel=1e-9)


def test_an_end_that_is_heard_of_later_is_charged_to_its_time() -> None:
    for half_life_us in (0, WEEK_US):
        tree = plant("a root 1", "a/ann 1 0", "a/bob 1 0")
        tree.decay = Decay(half_life_us)
        ann, bob = tree.users["a", "ann"], tree.users["a", "bob"]
        for user, heard_us in ((ann, 100 * US), (bob, 86_400 * US)):
            tree.begin(user, 8 * RATE_ONE, 0)
            tree.end(user, 8 * RATE_ONE, 100 * US, heard_us)
        tree.advance(ann, 86_400 * US)
        assert ann.rate == bob.rate == 0
        assert abs(ann.usage - bob.usage) <= 2


def test_a_reset_forgets_what_was_before() -> None:
    tree = plant("a root 1", "a/ann 1 500")
    tree.decay = Decay(0, "DAILY")
    ann = tree.users["a", "ann"]
    tree.begin(ann, RATE_ONE, 9 * DAY_US - 10 * US)
    assert tree.usage_at(ann, 9 * DAY_US - US) == 9 * USAGE_ONE  # the 500 were of days before
    assert tree.usage_at(ann, 9 * DAY_US + 5 * US) == 5 * USAGE_ONE
    tree.end(ann, RATE_ONE, 9 * DAY_US + 5 * US, 9 * DAY_US + 7 * US)
    assert tree.usage_at(ann, 9 * DAY_US + 8 * US) == 5 * USAGE_ONE
    assert tree.usage_at(ann, 10 * DAY_US) == 0


def test_what_a_removed_user_used_stays_with_the_account() -> None:
    tree = plant("a root 1", "a/ann 1 500", "a/bob 1 20")
    state = ClusterState()
    state.shares = tree
    draft = Draft(state, 0, World.actor("root"))
    draft.remove_assoc(tree.users["a", "ann"])
    tree.rank(0)
    assert tree.accounts["a"].total == 520 * USAGE_ONE
    assert list(tree.users) == [("a", "bob")]
