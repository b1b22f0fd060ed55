"""The error that all parsers of user text raise."""


class BadValue(ValueError):
    """The error for text that cannot be parsed; the message says what is wrong and what is allowed."""
