"""Exit codes as Slurm shows them (`code:signal`) and as a shell sees them (128 + signal)."""


def format_exit(code: int, signal: int) -> str:
    """`0:0`, `1:0`, `0:9`: sacct, scontrol."""
    return f"{code}:{signal}"


def shell_status(code: int, signal: int) -> int:
    """What a command that waited for the job exits with."""
    return 128 + signal if signal else code
