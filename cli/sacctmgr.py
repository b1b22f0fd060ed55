"""sacctmgr: shows and changes accounts, users, associations, QOS and other accounting records.

    sacctmgr add account physics parent=science fairshare=30
    sacctmgr add user ann account=physics
    sacctmgr modify user where name=ann account=physics set fairshare=5 maxjobs=20
    sacctmgr show association tree format=account,user,share
    sacctmgr dump tiny file=accounts.cfg

Words, headings, questions and their answers are Slurm's. accounts/keywords.py finds the keyword and the entity and
calls their module: accounts/words.py parses a line by the tables in accounts/grammar.py, changes are in
accounts/change.py and accounts/qos.py, tables in accounts/show.py and accounts/lists.py. Without a keyword sacctmgr is
interactive (accounts/prompt.py).
"""

from typing import NoReturn

from cli.accounts.keywords import COMMAND, NAME, do
from cli.base.options import parse
from cli.base.run import run


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Runs one line of the command line, or a prompt."""
    line = parse(COMMAND, argv)
    if not line.positional:
        from cli.accounts.prompt import read_lines

        return read_lines(line.values)
    return do(line.positional, line.values)


if __name__ == "__main__":
    main()
