"""sacctmgr's question before it changes anything."""

import select
import sys

DECIDE_S = 30


def confirmed() -> bool:
    """Slurm's question; no answer within DECIDE_S seconds is no."""
    print(f"Would you like to commit changes? (You have {DECIDE_S} seconds to decide)")  # noqa: T201
    print("(N/y): ", end="", flush=True)  # noqa: T201
    try:
        ready = select.select([sys.stdin], [], [], DECIDE_S)[0]
    except (ValueError, OSError):  # no stdin, or one that cannot be waited for
        ready = []
    answer = sys.stdin.readline() if ready else ""
    if not ready:
        print("timeout")  # noqa: T201
    return answer[:1].lower() == "y"
