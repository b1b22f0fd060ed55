"""The run time of a job that may have been suspended, as all commands and the controller compute it."""


def ran_us(until_us: int, start_at_us: int, suspended_us: int = 0, stands_since_us: int = 0) -> int:
    """Returns the microseconds from the start until `until_us`, without the time suspended; never below 0.

    `stands_since_us`: start of the current suspension; 0 = it is not suspended.
    """
    standing_us = max(0, until_us - stands_since_us) if stands_since_us else 0
    return max(0, until_us - start_at_us - suspended_us - standing_us)
