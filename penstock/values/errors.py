"""The one error that parsers of user text raise."""


class BadValue(ValueError):
    """The text cannot be read; the message says what was wrong and what is allowed."""
