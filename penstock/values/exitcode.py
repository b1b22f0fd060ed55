"""Formats exit codes as Slurm shows them (`code:signal`) and as a shell reports them (128 + signal)."""

from signal import NSIG, strsignal

from penstock.values.states import Reason


def format_exit(code: int, signal: int) -> str:
    """Formats an exit code as `0:0`, `1:0` or `0:9`, as in sacct and scontrol."""
    return f"{code}:{signal}"


def shell_status(code: int, signal: int) -> int:
    """Returns the exit status of a command that waited for the job."""
    return 128 + signal if signal else code


def with_signal(reason: str, exit_signal: int) -> str:
    """Appends the signal to the reason of a job that one has ended, as Slurm prints it: `RaisedSignal:9(Killed)`."""
    if reason != Reason.RAISED_SIGNAL or not exit_signal:
        return reason
    name = strsignal(exit_signal) if exit_signal < NSIG else None
    return f"{reason}:{exit_signal}({name or 'Unknown signal'})"
