"""The keywords and entities of sacctmgr: their names, and the module that implements each.

A word may be abbreviated as far as Slurm allows. `do` runs one line, from the command line or from the prompt. A
keyword's module is imported when it is used: most runs of sacctmgr use one.
"""

from collections.abc import Callable

from cli.accounts.helpwords import COMMANDS
from cli.base.document import DOCUMENT_OPTIONS
from cli.base.options import VALUES, VERSION_TEXT, YES, Command, Option, OptionValues, accepted
from cli.base.run import CommandError, need_own_process
from penstock.client import Client

NAME = "sacctmgr"

COMMAND = Command(
    NAME,
    "[<OPTION>] [<COMMAND>]",
    (
        Option("associations", "s", help="show associations with accounts and users"),
        Option("immediate", "i", help="commit changes immediately, without asking"),
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
    footer=COMMANDS,
    shape=VALUES,
)

#: Entities with the lengths of their shortest abbreviations, in lookup order.
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
#: Keywords that take an entity: the action, and the entities that it applies to.
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


def do(words: list[str], options: OptionValues) -> int:
    """Runs one keyword with its words."""
    verb = find_keyword(words[0])
    if verb in VERBS:
        return _with_entity(VERBS[verb], words[1:], options)
    if verb == "version":
        if len(words) > 1:
            raise CommandError("too many arguments for version keyword", plain=True)
        print(VERSION_TEXT)  # noqa: T201
        return 0
    if verb == "help":
        from cli.base.helptext import help_text

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


def _with_entity(verb: str, words: list[str], options: OptionValues) -> int:
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
        if options.flag("readonly"):
            raise CommandError("Can't run this command in readonly mode.", plain=True)
        return _change(verb, entity, words[1:], options)
    return _show(entity, words[1:], options)


def _change(verb: str, entity: str, words: list[str], options: OptionValues) -> int:
    from cli.accounts import grammar as grammar
    from cli.accounts.change import run_change
    from cli.accounts.context import ChangeContext
    from cli.accounts.words import read_line

    if entity == "federation":
        raise CommandError(
            f" Problem {'adding federation(s)' if verb == 'add' else 'with request'}: Requested operation not "
            f"supported on this system",
            plain=True, detail="clusters are independent of each other: there are no federations",
        )  # fmt: skip
    if not options.flag("immediate"):
        need_own_process()
    if entity == "job":
        from cli.accounts.job import GRAMMAR, modify_jobs

        said = read_line(words, GRAMMAR, verb)
        with Client.open() as client:
            return modify_jobs(ChangeContext(client, options), said)
    if entity in ("resource", "wckey"):
        from cli.accounts.lists import LISTINGS

        found = LISTINGS[entity].grammar
        if entity == "wckey":
            found = found._replace(who=found.conditions)
    else:
        found = getattr(grammar, entity.upper())
    said = read_line(words, found, verb)
    if entity == "qos":
        from cli.accounts.clusters import on_named
        from cli.accounts.qos import run_qos

        return on_named(
            said, options, lambda client, own, style: run_qos(ChangeContext(client, style), verb, own),
            needs_all=verb == "add",
        )  # fmt: skip
    if entity == "resource":
        from cli.accounts.resource import change_resources

        with Client.open() as client:
            return change_resources(ChangeContext(client, options), verb, said)
    from cli.accounts.clusters import on_named

    key = "name" if (verb, entity) == ("modify", "cluster") else "cluster"
    return on_named(
        said, options, lambda client, own, style: run_change(ChangeContext(client, style), verb, entity, own), key,
        needs_all=verb == "add",
    )  # fmt: skip


def _show(entity: str, words: list[str], options: OptionValues) -> int:
    from cli.accounts.words import read_line

    if entity in ("configuration", "stats"):
        from cli.accounts import server as server

        with Client.open() as client:
            return (server.show_configuration if entity == "configuration" else server.show_stats)(
                client, words, options
            )
    if entity in ("account", "user", "association", "cluster"):
        from cli.accounts import grammar as grammar
        from cli.accounts.clusters import on_named
        from cli.accounts.show import show, show_clusters

        said = read_line(words, getattr(grammar, entity.upper()), "show")
        if entity == "cluster":
            with Client.open() as client:
                return show_clusters(client, said, options)
        return on_named(said, options, lambda client, own, style: show(client, entity, own, style), changes=False)
    if entity == "qos":
        from cli.accounts.clusters import on_named
        from cli.accounts.grammar import QOS
        from cli.accounts.qos import show as show_qos

        said = read_line(words, QOS, "show")
        return on_named(said, options, show_qos, changes=False)
    from cli.accounts import lists as sacctmgr_lists

    said = read_line(words, sacctmgr_lists.LISTINGS[entity].grammar, "show")
    if entity == "runawayjobs" and not options.flag("immediate"):
        need_own_process()
    if "all_clusters" in said.flags:
        with Client.open() as client:
            return sacctmgr_lists.show(client, entity, said, options)
    from cli.accounts.clusters import on_named

    return on_named(
        said, options, lambda client, own, style: sacctmgr_lists.show(client, entity, own, style), changes=False
    )


#: Keywords without an entity: the module and function of each, whether it changes something, how many words it takes
#: (-1: any).
_PLAIN: dict[str, tuple[str, str, bool, int]] = {
    "archive": ("server", "archive", True, -1),
    "clear": ("server", "clear", True, 1),
    "dump": ("dump", "dump", False, -1),
    "load": ("load", "load", True, -1),
    "ping": ("server", "ping", False, 0),
    "reconfigure": ("server", "reconfigure", True, 0),
    "shutdown": ("server", "shutdown", True, 0),
}


def _without_entity(verb: str, words: list[str], options: OptionValues) -> int:
    from importlib import import_module

    from cli.accounts.context import ChangeContext

    if verb not in _PLAIN:
        raise CommandError(f"invalid keyword: {verb}", plain=True)
    module, name, changes, most = _PLAIN[verb]
    if 0 <= most < len(words):
        raise CommandError(f"too many arguments for {verb} keyword", plain=True)
    if changes and options.flag("readonly"):
        raise CommandError("Can't run this command in readonly mode.", plain=True)
    if changes and not options.flag("immediate"):
        need_own_process()
    act: Callable[[ChangeContext, list[str]], int] = getattr(import_module(f"cli.accounts.{module}"), name)
    with Client.open() as client:
        return act(ChangeContext(client, options), words)
