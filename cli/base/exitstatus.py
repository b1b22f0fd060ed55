"""The exit statuses of sbatch, salloc and srun that a caller may set, to distinguish their errors from their program's.

SLURM_EXIT_ERROR is the status of every error of the command itself (default 1), SLURM_EXIT_IMMEDIATE that of an
allocation that --immediate did not get. A bad option or directive stays 255. A value that is not an exit status is ignored.
"""

import os

from cli.base.run import Body, status_of

STATUS_MAX = 255


def error_status() -> int:
    """The exit status of the command's own errors."""
    return _status_from("SLURM_EXIT_ERROR", 1)


def immediate_status() -> int:
    """The exit status when --immediate could not be met."""
    return _status_from("SLURM_EXIT_IMMEDIATE", error_status())


def _status_from(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")[:4]
    return int(text) if text.isascii() and text.isdigit() and int(text) <= STATUS_MAX else default


def with_exit_error(name: str, body: Body, argv: list[str]) -> int:
    """Runs a command's body; replaces a status 1 that came from an error by the chosen one."""
    failed = error_status()
    if failed == 1:
        return body(argv)
    returned: list[int] = []

    def noted(words: list[str]) -> int:
        returned.append(body(words))
        return returned[0]

    status = status_of(name, noted, argv)
    return failed if status == 1 and not returned else status
