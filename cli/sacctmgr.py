"""sacctmgr: accounts, users and their associations, looked at and changed.

    sacctmgr add account physics parent=science fairshare=30
    sacctmgr add user ann account=physics
    sacctmgr modify user where name=ann account=physics set fairshare=5
    sacctmgr delete user ann
    sacctmgr show association tree format=account,user,share

Words are Slurm's: keywords and names of conditions may be cut short, `where` and `set` part conditions from changes, a
word without `=` is a name. A change is first asked of the controller without being made, shown, and made when the
person at the terminal says yes or -i was given.

Here are accounts, users, associations and clusters with shares; QOS records are in sacctmgr_qos.py. Limits come with the
accounting issue, which adds rows to KEYS and to the tables of sacctmgr_show.py. What Slurm has and this version has not fails and
says so.
"""

from typing import Any, NamedTuple, NoReturn

from cli.confirm import confirmed
from cli.listing import words
from cli.options import YES, Command, Option, later, parse
from cli.run import CommandError, run
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.shares_pb2 import Association, ChangeAccountsReply, ChangeAccountsRequest

NAME = "sacctmgr"
Action = ChangeAccountsRequest.Action

COMMAND = Command(
    NAME,
    "[OPTIONS...] COMMAND ENTITY [OPTIONS...]",
    (
        Option("immediate", "i", help="commit changes without asking"),
        Option("noheader", "n", help="no header will be added to the beginning of output"),
        Option("oneliner", "o", help="one record on each line"),
        Option("parsable", "p", help="output will be '|' delimited with a '|' at the end"),
        Option("parsable2", "P", help="output will be '|' delimited without a '|' at the end"),
        Option("quiet", "Q", help="print no messages other than error messages"),
        Option("readonly", "r", help="no modification will be allowed"),
        Option("associations", "s", help="show associations with accounts and users"),
        Option("verbose", "v", help="verbosity level", counted=True),
        *later("json", "yaml", value=YES),
    ),
    footer="""Commands:
  add|create account|user NAME[,NAME] [KEY=VALUE...]
  modify account|user where KEY=VALUE... set KEY=VALUE...
  delete|remove account|user [where] NAME|KEY=VALUE...
  add|modify|delete qos ...   (Priority, Preempt, PreemptMode, GraceTime, PreemptExemptTime, Flags, UsageFactor)
  show|list account|user|association|cluster|qos [where KEY=VALUE...] [format=FIELD[%WIDTH],...]
Keys: account, cluster, defaultaccount, description, fairshare, name, organization, parent, priority, rawusage, user""",
)

#: Keys by their whole name; a word that begins one of them means it, the first that fits.
KEYS = (
    "account", "acct", "adminlevel", "clusters", "defaultaccount", "defaultqos", "description", "fairshare", "format",
    "grpjobs", "grpjobsaccrue", "grpsubmitjobs", "grptres", "grptresmins", "grptresrunmins", "grpwall", "maxjobs",
    "maxjobsaccrue", "maxsubmitjobs", "maxtres", "maxtresmins", "maxwall", "names", "newname", "organization",
    "parents", "partitions", "priority", "qos", "qoslevel", "rawusage", "shares", "users", "wckeys",
)  # fmt: skip
_SAME = {"acct": "account", "shares": "fairshare", "names": "name", "parents": "parent", "users": "user"}
_SETTINGS = frozenset(("fairshare", "priority", "parent", "defaultaccount", "description", "organization", "rawusage"))
#: Words of `show` that are no keys.
FLAGS = ("tree", "withassoc", "withcoord", "withdeleted", "wolimits", "wopinfo", "onlydefaults", "withsubaccounts")
ENTITIES = ("account", "association", "cluster", "user", "qos")
ENTITIES_LATER = (
    "archive", "configuration", "coordinator", "event", "federation", "instance", "job", "problem", "reservation",
    "resource", "runawayjobs", "stats", "transaction", "tres", "wckey",
)  # fmt: skip
VERBS = {"add": "add", "create": "add", "modify": "modify", "delete": "remove", "remove": "remove",
         "show": "show", "list": "show"}  # fmt: skip
VERBS_LATER = ("archive", "clear", "dump", "load", "ping", "reconfigure", "shutdown", "version")


class Words(NamedTuple):
    """What a line says: names without a key, conditions, changes, and words that stand alone."""

    names: list[str]
    where: dict[str, str]
    changes: dict[str, str]
    flags: frozenset[str]


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Find the keyword and the entity, and do it."""
    line = parse(COMMAND, argv)
    if not line.positional:
        raise CommandError("interactive mode is not supported by Penstock: give a command (sacctmgr --help lists them)")
    verb = _find(line.positional[0], (*VERBS, *VERBS_LATER), f"invalid keyword: {line.positional[0]}")
    if verb not in VERBS:
        raise CommandError(f"{verb} is not supported yet by Penstock")
    if len(line.positional) < 2:
        raise CommandError(f"No entity given for keyword: {verb}; one of {', '.join(ENTITIES)}")
    entity = _find(line.positional[1], (*ENTITIES, *ENTITIES_LATER), f"invalid entity: {line.positional[1]}")
    if entity == "qos":
        from cli.sacctmgr_qos import run_qos

        return run_qos(VERBS[verb], line.positional[2:], line.values)
    if entity not in ENTITIES or (VERBS[verb] != "show" and entity not in ("account", "user")):
        raise CommandError(f"{verb} {entity} is not supported yet by Penstock")
    said = read_words(line.positional[2:], VERBS[verb])
    with Client.open() as client:
        check_cluster(said, client.cluster.cluster_name)
        if VERBS[verb] == "show":
            from cli.sacctmgr_show import show

            return show(client, entity, said, line.values)
        if line.values.get("readonly"):
            raise CommandError("Can't run this command in readonly mode.")
        return change(client, VERBS[verb], entity, said, line.values)


def _find(word: str, known: tuple[str, ...], error: str) -> str:
    """A keyword that may be cut short, or stand in the plural."""
    low = word.lower()
    for text in (low, low.removesuffix("s")):
        if text in known:
            return text
    found = [name for name in known if name.startswith(low)] if low else []
    if not found:
        raise CommandError(error, plain=True)
    return found[0]


def read_words(texts: list[str], verb: str) -> Words:
    """The words behind the entity."""
    said = Words([], {}, {}, frozenset())
    flags: set[str] = set()
    into = said.where if verb in ("remove", "show", "modify") else said.changes
    for text in texts:
        low = text.lower()
        if low in ("where", "set"):
            into = said.where if low == "where" else said.changes
            continue
        key, equals, value = text.partition("=")
        if not equals:
            if low in FLAGS:
                flags.add(low)
            else:
                said.names.extend(words(text))
            continue
        if key.endswith(("+", "-")):
            raise CommandError(f"{key}= is not supported yet by Penstock")
        into[_key(key, text)] = value.strip("\"'")
    if verb == "add":
        for key in ("account", "name", "user", "cluster"):
            if key in said.changes:
                said.where[key] = said.changes.pop(key)
    elif verb == "modify":
        for key in [key for key in said.where if key in _SETTINGS - {"parent", "defaultaccount"}]:
            raise CommandError(
                f" Unknown condition: {key}={said.where[key]}\n Use keyword 'set' to modify value", plain=True
            )
    return said._replace(flags=frozenset(flags))


def _key(word: str, text: str) -> str:
    low = word.lower()
    found = low if low in KEYS else next((name for name in KEYS if len(low) > 1 and name.startswith(low)), None)
    if found is None:
        raise CommandError(f" Unknown option: {text}", plain=True)
    found = _SAME.get(found, "cluster" if found == "clusters" else found)
    if found not in (*_SETTINGS, "account", "cluster", "name", "user", "format", "qos", "partitions"):
        raise CommandError(f"{found}= is not supported yet by Penstock")
    return found


def check_cluster(said: Words, own: str) -> None:
    """There is one cluster; another one is a mistake."""
    for name in words(said.where.get("cluster")):
        if name != own:
            raise CommandError(
                f" This cluster '{name}' doesn't exist.\n        Contact your admin to add it to accounting.",
                plain=True,
            )


# ---- changes -----------------------------------------------------------------------------------------------------


def change(client: Client, verb: str, entity: str, said: Words, options: dict[str, Any]) -> int:
    """Ask what would be done, show it, ask the person, do it."""
    request = make_request(verb, entity, said)
    look = make_request(verb, entity, said)
    look.check_only = True
    plan = _ask(client, look, verb, entity)
    quiet = options.get("quiet")
    if not plan.associations:
        nothing = {"add": " Nothing new added.", "modify": "  Nothing modified", "remove": " Nothing deleted"}[verb]
        print(nothing)  # noqa: T201
        return 1
    if not quiet:
        print("\n".join(describe(client.cluster.cluster_name, verb, entity, plan, request)))  # noqa: T201
    if not options.get("immediate") and not confirmed():
        print(" Changes Discarded")  # noqa: T201
        return 0
    _ask(client, request, verb, entity)
    return 0


def make_request(verb: str, entity: str, said: Words) -> ChangeAccountsRequest:
    """The line as the controller takes it."""
    where = said.where
    names = [*said.names, *words(where.get("name"))]
    accounts = words(where.get("account"))
    if entity == "user":
        names += words(where.get("user"))
    else:
        names, accounts = names + accounts, []
        if where.get("user"):
            raise CommandError(" Can not run this command on users: use sacctmgr ... user", plain=True)
    if verb == "add" and not names:
        raise CommandError(f" Need name of {entity} to add.", plain=True)
    if verb != "add" and not names and not accounts and "parent" not in where:
        raise CommandError(
            " No conditions given to " + ("remove" if verb == "remove" else "change") + ", not executing.", plain=True
        )
    changes = said.changes
    if verb == "modify" and not changes:
        raise CommandError(" You didn't give me anything to set", plain=True)
    action = {"add": Action.ADD, "modify": Action.MODIFY, "remove": Action.REMOVE}[verb]
    return ChangeAccountsRequest(
        action=action,
        entity=entity,
        names=names,
        accounts=accounts,
        parents=words(where.get("parent")),
        changes=changes,
    )


def _ask(client: Client, request: ChangeAccountsRequest, verb: str, entity: str) -> ChangeAccountsReply:
    try:
        reply: ChangeAccountsReply = client.call("ChangeAccounts", request)
    except PenstockError as error:
        if error.code:
            raise CommandError(f" Problem {_DOING[verb]} {entity}s: {error.text}", plain=True) from error
        raise
    return reply


_DOING = {"add": "adding", "modify": "modifying", "remove": "deleting"}


def describe(
    cluster: str, verb: str, entity: str, plan: ChangeAccountsReply, request: ChangeAccountsRequest
) -> list[str]:
    """What Slurm prints before it asks."""
    changes = dict(request.changes)
    lines = _lines_of(cluster, plan.associations)
    if verb == "modify":
        return [f" Modified {entity} associations...", *lines]
    if verb == "remove":
        return [f" Deleting {entity}s...", *(f"  {name}" for name in plan.names)]
    if entity == "account":
        told = [
            f"  Description     = {changes.get('description', 'Account Name')}",
            f"  Organization    = {changes.get('organization', 'Parent/Account Name')}",
        ]
        head = [
            " Adding Account(s)",
            *(f"  {name}" for name in plan.names),
            " Settings",
            *told,
            " Associations",
            *lines,
        ]
    else:
        default = changes.get("defaultaccount") or (request.accounts[0] if request.accounts else "")
        head = [" Adding User(s)", *(f"  {name}" for name in plan.names), " Settings =", f"  Default Account = {default}",
                " Associations =", *lines]  # fmt: skip
    rest = [
        f"  {label:<14}= {changes[key]}"
        for key, label in (("parent", "Parent"), ("fairshare", "Fairshare"), ("priority", "Priority"))
        if key in changes
    ]
    return head + ([" Settings" if entity == "account" else " Non Default Settings", *rest] if rest else [])


def _lines_of(cluster: str, associations: Any) -> list[str]:
    return [_line_of(cluster, one) for one in associations]


def _line_of(cluster: str, one: Association) -> str:
    if one.user:
        return f"  U = {one.user:<9} A = {one.account:<10} C = {cluster:<10}"
    return f"  A = {one.account:<10} C = {cluster:<10}"


if __name__ == "__main__":
    main()
