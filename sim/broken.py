"""What an oracle of the fault worlds raises."""


class Broken(Exception):
    """An oracle says no. `oracle` is its name."""

    def __init__(self, oracle: str, text: str, job_id: int = 0) -> None:
        super().__init__(f"{oracle}: {text}")
        self.oracle, self.text, self.job_id = oracle, text, job_id
