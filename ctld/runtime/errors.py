"""Why the loop does not take a request."""

from penstock.values.refusals import TEXT, Code


class NotTaken(Exception):
    """The request did not reach the core. `passing`: the same request may be sent again at once."""

    def __init__(self, code: Code, detail: str, passing: bool = False) -> None:
        self.code = code
        self.text = f"{TEXT[code]}: {detail}" if detail else TEXT[code]
        self.passing = passing
        super().__init__(self.text)
