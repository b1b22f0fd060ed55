"""The exception that oracles of the fault worlds raise."""


class Broken(Exception):
    """An oracle has found a violation. `oracle` is its name."""

    def __init__(self, oracle: str, text: str, job_id: int = 0) -> None:
        super().__init__(f"{oracle}: {text}")
        self.oracle = oracle
        self.text = text
        self.job_id = job_id
