"""What a check of the state raises."""


class Violation(AssertionError):
    """An invariant does not hold."""


def need(holds: bool, text: str) -> None:
    """Raise Violation unless it holds."""
    if not holds:
        raise Violation(text)
