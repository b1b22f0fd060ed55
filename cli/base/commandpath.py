"""How a Penstock command is started by another one."""

import sys
from pathlib import Path


def how_to_run(name: str) -> list[str]:
    """The command line of a Penstock command: the installed one beside this Python, else its module."""
    script = Path(sys.executable).with_name(name)
    return [str(script)] if script.exists() else [sys.executable, "-P", "-c", f"import cli.{name} as m; m.main()"]
