"""The interface of one filter of options."""

from collections.abc import Mapping


class Plugin:
    """One filter: each of its functions does nothing unless it is overridden."""

    name = ""

    def setup_defaults(self, options: dict[str, str], early: bool, component: int) -> Mapping[str, str | None]:
        """Returns changes of the defaults. Raises CommandError."""
        return {}

    def pre_submit(self, options: dict[str, str], component: int) -> Mapping[str, str | None]:
        """Returns changes of the options. Raises CommandError."""
        return {}

    def post_submit(self, component: int, job_id: int, step_id: int | None) -> None:
        """Learns of the job. Raises CommandError."""

    def close(self) -> None:
        """Ends what runs for it."""
