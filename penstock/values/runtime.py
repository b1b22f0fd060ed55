"""How long something has run when it stood still for a while: what every command and the controller count alike."""


def ran_us(until_us: int, start_at_us: int, suspended_us: int = 0, stands_since_us: int = 0) -> int:
    """Microseconds from the start until `until_us`, less what it was suspended; never below 0.

    `stands_since_us`: since when it is suspended now; 0 = it is not.
    """
    standing_us = max(0, until_us - stands_since_us) if stands_since_us else 0
    return max(0, until_us - start_at_us - suspended_us - standing_us)
