"""Errors by which the controller rejects a request that does not reach the core."""

from penstock.values.refusals import TEXT, Code


class BadRequest(Exception):
    """A message that cannot be turned into an event: refused before the core sees it."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class NotTaken(Exception):
    """The request did not reach the core. `passing`: the same request may be repeated at once."""

    def __init__(self, code: Code, detail: str, passing: bool = False) -> None:
        self.code = code
        self.text = f"{TEXT[code]}: {detail}" if detail else TEXT[code]
        self.passing = passing
        super().__init__(self.text)
