"""sacctmgr: accounts, users, associations, QOS and all else that accounting keeps, looked at and changed.

    sacctmgr add account physics parent=science fairshare=30
    sacctmgr add user ann account=physics
    sacctmgr modify user where name=ann account=physics set fairshare=5 maxjobs=20
    sacctmgr show association tree format=account,user,share
    sacctmgr dump tiny file=accounts.cfg

Words, headings, questions and their answers are Slurm's. This module finds the keyword and the entity and hands the
rest on: how a line is read is in sacctmgr_words.py with the tables in sacctmgr_grammar.py, changes are in
sacctmgr_change.py and sacctmgr_qos.py, tables in sacctmgr_show.py and sacctmgr_lists.py. Without a keyword lines are
read one after another (sacctmgr_prompt.py).
"""

from collections.abc import Callable
from typing import Any, NoReturn

from cli.document import DOCUMENT_OPTIONS
from cli.options import VERSION_TEXT, YES, Command, Option, accepted, parse
from cli.run import CommandError, need_own_process, run
from penstock.client import Client

NAME = "sacctmgr"

COMMAND = Command(
    NAME,
    "[OPTIONS...] [COMMAND [ENTITY] [WORDS...]]",
    (
        Option("associations", "s", help="show associations with accounts and users"),
        Option("immediate", "i", help="commit changes without asking"),
        Option("noheader", "n", help="no header will be added to the beginning of output"),
        Option("oneliner", "o", help="one record on each line"),
        Option("parsable", "p", help="output will be '|' delimited with a '|' at the end"),
        Option("parsable2", "P", help="output will be '|' delimited without a '|' at the end"),
        Option("quiet", "Q", help="print no messages other than error messages"),
        Option("readonly", "r", help="no modification will be allowed"),
        Option("verbose", "v", help="verbosity level", counted=True),
        *DOCUMENT_OPTIONS,
        *accepted("autocomplete", value=YES, note="`penstock completion` writes what a shell needs"),
    ),
    footer="""Commands:
  add|create ENTITY WORDS          account association cluster coordinator qos resource user wckey
  modify ENTITY where WORDS set WORDS   account cluster job qos resource user
  delete|remove ENTITY where WORDS      as add
  show|list ENTITY [WORDS]         account association cluster configuration event federation instance problem qos
                                   reservation resource runawayjobs stats transaction tres user wckey
  dump CLUSTER [file=FILE]         write accounts and users to a file
  load FILE [clean]                make what the file says
  archive dump WORDS               write old records to files and remove them
  clear stats, ping, reconfigure, version; without a command: a prompt
Words are KEY=VALUE, KEY+=VALUE, KEY-=VALUE, names, and flags (withassoc, tree, ...);
format=FIELD[%WIDTH],... chooses columns.""",
)

#: Entities with the letters that are enough, in the order in which they are looked up.
ENTITIES = (
    ("account", 1), ("accounts", 1), ("acct", 4), ("association", 2), ("associations", 2), ("cluster", 2), ("clusters", 2),
    ("configuration", 2), ("coordinator", 4), ("coordinators", 4), ("event", 1), ("events", 1), ("federation", 1),
    ("federations", 1), ("instance", 1), ("instances", 1), ("job", 1), ("jobs", 1), ("problem", 1), ("problems", 1), ("qos", 1),
    ("qoss", 4), ("resource", 4), ("resources", 4), ("reservation", 4), ("reservations", 4), ("resv", 4), ("runawayjobs", 2),
    ("orphanjobs", 1), ("lostjobs", 1), ("stats", 1), ("transaction", 1), ("transactions", 1), ("txn", 1), ("tres", 2),
    ("user", 1),    ("users", 1), ("wckey", 1), ("wckeys", 1),
)  # fmt: skip
_SAME = {"acct": "account", "resv": "reservation", "orphanjobs": "runawayjobs", "lostjobs": "runawayjobs", "txn": "transaction",
         "qoss": "qos"}  # fmt: skip
#: Keywords with an entity behind them: what they do, and to what.
VERBS = {"add": "add", "create": "add", "modify": "modify", "update": "modify", "delete": "remove", "remove": "remove",
         "show": "show", "list": "show"}  # fmt: skip
_LEAST = {"add": 3, "create": 2, "delete": 3, "dump": 3, "list": 3, "load": 2, "modify": 1, "remove": 3, "show": 3, "update": 1,
          "archive": 3, "clear": 2, "ping": 4, "reconfigure": 3, "shutdown": 4, "version": 4, "help": 2, "associations": 2,
          "exit": 1, "quit": 4}  # fmt: skip
CHANGED = {
    "add": ("account", "cluster", "coordinator", "federation", "qos", "resource", "user", "wckey"),
    "modify": ("account", "cluster", "federation", "job", "qos", "resource", "user"),
    "remove": ("account", "cluster", "coordinator", "federation", "qos", "resource", "user", "wckey"),
}
_EXPECTED = {
    "add": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
    "modify": '"Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"',
    "remove": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
    "show": '"Account", "Association", "Cluster", "Configuration",\n"Event", "Federation", "Problem", "QOS", "Resource", '
    '"Reservation",\n"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"',
}
_VERB_SHOWN = {"add": "add", "modify": "modify", "remove": "delete", "show": "list"}
_ASSOC_ONLY_SHOWN = "an association is added and removed with its account or user: sacctmgr {verb} user|account"


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """One line of the command line, or a prompt."""
    line = parse(COMMAND, argv)
    if not line.positional:
        from cli.sacctmgr_prompt import read_lines

        return read_lines(line.values)
    return do(line.positional, line.values)


def do(words: list[str], options: dict[str, Any]) -> int:
    """One keyword with its words."""
    verb = find_keyword(words[0])
    if verb in VERBS:
        return _with_entity(VERBS[verb], words[1:], options)
    if verb == "version":
        if len(words) > 1:
            raise CommandError("too many arguments for version keyword", plain=True)
        print(VERSION_TEXT)  # noqa: T201
        return 0
    if verb == "help":
        from cli.options import help_text

        print(help_text(COMMAND))  # noqa: T201
        return 0
    return _without_entity(verb, words[1:], options)


def find_keyword(word: str) -> str:
    """The keyword that a word means. Raises CommandError."""
    low = word.lower()
    for name, least in _LEAST.items():
        if low == name or (len(low) >= least and name.startswith(low)):
            return name
    raise CommandError(f"invalid keyword: {word}", plain=True)


def find_entity(word: str) -> str | None:
    """The entity that a word means."""
    low = word.lower()
    for name, least in ENTITIES:
        if low == name or (len(low) >= least and name.startswith(low)):
            found = _SAME.get(name, name)
            return found if found in ("qos", "tres", "runawayjobs", "stats") else found.removesuffix("s")
    return None


def _with_entity(verb: str, words: list[str], options: dict[str, Any]) -> int:
    entity = find_entity(words[0]) if words else None
    known = entity is not None and (verb == "show" or entity in CHANGED[verb])
    if not known or (verb == "show" and entity in ("coordinator", "job")):
        detail = _ASSOC_ONLY_SHOWN.format(verb=_VERB_SHOWN[verb]) if entity == "association" else ""
        raise CommandError(
            f"No valid entity in {_VERB_SHOWN[verb]} command\nInput line must include {_EXPECTED[verb]}",
            plain=True,
            detail=detail,
        )
    assert entity is not None
    if verb != "show":
        if options.get("readonly"):
            raise CommandError("Can't run this command in readonly mode.", plain=True)
        return _change(verb, entity, words[1:], options)
    return _show(entity, words[1:], options)


def _change(verb: str, entity: str, words: list[str], options: dict[str, Any]) -> int:
    from cli import sacctmgr_grammar as grammar
    from cli.sacctmgr_change import Asker, run_change
    from cli.sacctmgr_words import read_line

    if entity == "federation":
        raise CommandError(
            f" Problem {'adding federation(s)' if verb == 'add' else 'with request'}: Requested operation not "
            f"supported on this system",
            plain=True, detail="a Penstock controller has one cluster; there are no federations",
        )  # fmt: skip
    if not options.get("immediate"):
        need_own_process()
    if entity == "job":
        from cli.sacctmgr_job import GRAMMAR, modify_jobs

        said = read_line(words, GRAMMAR, verb)
        with Client.open() as client:
            return modify_jobs(Asker(client, options), said)
    if entity in ("resource", "wckey"):
        from cli.sacctmgr_lists import LISTINGS

        found = LISTINGS[entity].grammar
        if entity == "wckey":
            found = found._replace(who=found.conditions)
    else:
        found = getattr(grammar, entity.upper())
    said = read_line(words, found, verb)
    with Client.open() as client:
        asker = Asker(client, options)
        if entity == "qos":
            from cli.sacctmgr_qos import run_qos

            return run_qos(asker, verb, said)
        if entity == "resource":
            from cli.sacctmgr_resource import change_resources

            return change_resources(asker, verb, said)
        return run_change(asker, verb, entity, said)


def _show(entity: str, words: list[str], options: dict[str, Any]) -> int:
    from cli.sacctmgr_words import read_line

    if entity in ("configuration", "stats"):
        from cli import sacctmgr_server as server

        with Client.open() as client:
            return (server.show_configuration if entity == "configuration" else server.show_stats)(
                client, words, options
            )
    if entity in ("account", "user", "association", "cluster"):
        from cli import sacctmgr_grammar as grammar
        from cli.sacctmgr_change import check_cluster
        from cli.sacctmgr_show import show

        said = read_line(words, getattr(grammar, entity.upper()), "show")
        with Client.open() as client:
            if entity != "cluster":
                check_cluster(said, client.cluster.cluster_name)
            return show(client, entity, said, options)
    if entity == "qos":
        from cli.sacctmgr_grammar import QOS
        from cli.sacctmgr_qos import show as show_qos

        said = read_line(words, QOS, "show")
        with Client.open() as client:
            return show_qos(client, said, options)
    from cli import sacctmgr_lists

    said = read_line(words, sacctmgr_lists.LISTINGS[entity].grammar, "show")
    if entity == "runawayjobs" and not options.get("immediate"):
        need_own_process()
    with Client.open() as client:
        return sacctmgr_lists.show(client, entity, said, options)


#: Keywords without an entity: the module and function that does them, whether they change something, how many words
#: they take (-1: any).
_PLAIN: dict[str, tuple[str, str, bool, int]] = {
    "archive": ("sacctmgr_server", "archive", True, -1),
    "clear": ("sacctmgr_server", "clear", True, 1),
    "dump": ("sacctmgr_dump", "dump", False, -1),
    "load": ("sacctmgr_load", "load", True, -1),
    "ping": ("sacctmgr_server", "ping", False, 0),
    "reconfigure": ("sacctmgr_server", "reconfigure", True, 0),
    "shutdown": ("sacctmgr_server", "shutdown", True, 0),
}


def _without_entity(verb: str, words: list[str], options: dict[str, Any]) -> int:
    from importlib import import_module

    from cli.sacctmgr_change import Asker

    if verb not in _PLAIN:
        raise CommandError(f"invalid keyword: {verb}", plain=True)
    module, name, changes, most = _PLAIN[verb]
    if 0 <= most < len(words):
        raise CommandError(f"too many arguments for {verb} keyword", plain=True)
    if changes and options.get("readonly"):
        raise CommandError("Can't run this command in readonly mode.", plain=True)
    if changes and not options.get("immediate"):
        need_own_process()
    act: Callable[[Asker, list[str]], int] = getattr(import_module(f"cli.{module}"), name)
    with Client.open() as client:
        return act(Asker(client, options), words)


if __name__ == "__main__":
    main()
