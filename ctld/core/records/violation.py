"""The error that a check of the state raises."""


class Violation(AssertionError):
    """An invariant that does not hold."""


def need(holds: bool, text: str) -> None:
    """Raises Violation unless the condition holds."""
    if not holds:
        raise Violation(text)
