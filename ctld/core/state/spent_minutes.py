"""Used TRES minutes, decayed to now: of an association, of a QOS.

Like the billing usage of fairshare.py, but by TRES and with run time (`WALL`): amounts as of a moment, and the rates of
allocated jobs since. They decay by the same rules (PriorityDecayHalfLife, PriorityUsageResetPeriod), of a QOS with
NoDecay not at all. Units: records/decay.py's; memory in MB.
"""

import msgspec

from ctld.core.records.decay import RATE_ONE, USAGE_ONE, Decay, carry, carry_all
from ctld.core.state.usage_resets import last_reset_us

#: The run time of jobs, as one of the TRES.
WALL = "wall"
_AT = "at_us"
_NEVER = Decay(0, "NONE")
#: Amounts of one TRES minute.
MINUTE = 60 * USAGE_ONE
#: The use of a rate of 1 in a second.
RATES_A_SECOND = USAGE_ONE // RATE_ONE


class Spent:
    """Decaying amounts with their rates. See the module text."""

    __slots__ = ("amounts", "at_us", "decays", "rates")

    def __init__(self, at_us: int = 0, amounts: dict[str, int] | None = None) -> None:
        self.amounts = amounts or {}
        self.at_us = at_us
        self.rates: dict[str, int] = {}
        self.decays = True

    def at(self, decay: Decay, now_us: int) -> dict[str, int]:
        """Returns all amounts decayed to then; never before `at_us`."""
        rule = decay if self.decays else _NEVER
        reset_us = last_reset_us(rule.reset_period, now_us)
        if self.at_us < reset_us:
            return carry_all({}, self.rates, reset_us, now_us, rule.half_life_us)
        return carry_all(self.amounts, self.rates, self.at_us, now_us, rule.half_life_us)

    def advance(self, decay: Decay, now_us: int) -> None:
        """Advances the amounts to now."""
        if now_us > self.at_us:
            self.amounts = self.at(decay, now_us)
            self.at_us = now_us

    def begin(self, rates: dict[str, int], sign: int) -> None:
        """Changes the rates from `at_us` on."""
        for name, rate in rates.items():
            left = self.rates.get(name, 0) + sign * rate
            if left:
                self.rates[name] = left
            else:
                self.rates.pop(name, None)

    def can_reach(self, rate: int, bound: int, decay: Decay) -> bool:
        """Whether a constant rate ever reaches that amount in spite of the decay."""
        rule = decay if self.decays else _NEVER
        if rule.half_life_us <= 0:
            return True
        return carry(0, rate, 0, 64 * rule.half_life_us, rule.half_life_us) > bound

    def undo(self, rates: dict[str, int], from_us: int, decay: Decay) -> None:
        """Subtracts what was counted of these rates since `from_us`."""
        rule = decay if self.decays else _NEVER
        begun_us = max(from_us, last_reset_us(rule.reset_period, self.at_us))
        for name, amount in carry_all({}, rates, begun_us, self.at_us, rule.half_life_us).items():
            self.amounts[name] = max(0, self.amounts.get(name, 0) - amount)

    def add(self, other: "Spent", decay: Decay, now_us: int, sign: int = 1) -> None:
        """Adds another's amounts and rates, or subtracts them."""
        self.advance(decay, now_us)
        for name, amount in other.at(decay, now_us).items():
            self.amounts[name] = max(0, self.amounts.get(name, 0) + sign * amount)
        self.begin(other.rates, sign)

    def text(self) -> str:
        """Returns the JSON of the database."""
        kept = {name: amount for name, amount in self.amounts.items() if amount}
        return msgspec.json.encode({_AT: self.at_us, **kept}).decode() if kept or self.rates else ""


def joined(one: Spent | None, other: Spent, decay: Decay, now_us: int) -> Spent:
    """Returns the sum of both, as a new record."""
    found = Spent(now_us)
    for each in (one, other):
        if each is not None:
            found.add(each, decay, now_us)
    return found


def spent_from(text: str) -> Spent | None:
    """Parses `text`; None if it is empty."""
    if not text:
        return None
    found: dict[str, int] = msgspec.json.decode(text)
    at_us = found.pop(_AT, 0)
    return Spent(at_us, {name: int(amount) for name, amount in found.items()})


def rates_of(tres: tuple[tuple[str, int], ...], factor_ppm: int) -> dict[str, int]:
    """Returns the rates of a job with these TRES, and of its run time."""
    rates = {name: amount * RATE_ONE * factor_ppm // 1_000_000 for name, amount in tres if amount}
    rates[WALL] = RATE_ONE * factor_ppm // 1_000_000
    return {name: rate for name, rate in rates.items() if rate}
