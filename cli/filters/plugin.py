"""The interface of one filter of options."""

from collections.abc import Mapping

from cli.base.run import CommandError


class FilterFault(CommandError):
    """What a filter does wrong: it cannot be loaded, raises, hangs, ends, or gives a wrong value. A refusal is none."""


class Plugin:
    """One filter: each of its functions does nothing unless it is overridden."""

    name = ""
    may_fail = False  # after a fault the command continues without it

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
