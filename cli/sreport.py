"""sreport: reports usage of the cluster by account, user, wckey, QOS, size of jobs, and of reservations.

    sreport cluster AccountUtilizationByUser start=2026-11-01 end=2026-12-01 tree -t Hours -T cpu,gres/gpu
    sreport user TopUsage TopCount=5
    sreport job SizesByAccount Grouping=8,64,512

All data are from the roll-ups of the controller's database (Report), which are exact for whole hours; the current hour
is never in a report. Words may be abbreviated, the first match wins. Without words commands are read from standard
input, as by Slurm's sreport. The lines are made in listings/sreport_usage.py, listings/sreport_cluster.py and
listings/sreport_jobs.py; listings/sreport_words.py parses words, listings/sreport_fields.py has the columns.
"""

import shlex
import sys
from collections.abc import Callable, Iterable

from cli.base.clusters import ALL, in_turn, named_clusters
from cli.base.format import TableStyle
from cli.base.listing import emit, environment, now_us
from cli.base.options import VALUES, VERSION_TEXT, YES, Command, Option, OptionValues, accepted, parse
from cli.base.run import CommandError, complain, need_own_process, run
from cli.listings.sreport_fields import Setting
from cli.listings.sreport_words import MINUTES, ReportQuestion, read, time_format
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.values.errors import BadValue

NAME = "sreport"
FOOTER = """\
  Without a command sreport reads lines from the input, until exit, quit or its end.

    Valid <COMMAND> values are:
     exit                end sreport (also: quit)
     help                print this text
     nonparsable         output as a table
     parsable            output delimited with |, also at the end
     parsable2           output delimited with |, not at the end
     quiet               print errors only
     time <time_format>  Second, Minute, Hour, Percent, SecPer, MinPer or HourPer
     verbose             print more messages
     version             print the version
     !!                  repeat the last line

    Valid report types are:
     cluster <REPORT> <OPTIONS>
     job <REPORT> <OPTIONS>
     reservation <REPORT> <OPTIONS>
     user <REPORT> <OPTIONS>

  <REPORT> is different for each report type.
     cluster     - AccountUtilizationByQOS, AccountUtilizationByUser, UserUtilizationByAccount,
                   UserUtilizationByWckey, Utilization, WCKeyUtilizationByUser
     job         - SizesByAccount, SizesByAccountAndWcKey, SizesByWcKey
     reservation - Utilization
     user        - TopUsage

  <OPTIONS> are different for each report type.
     all         - All_Clusters, Clusters=<OPT>, End=<OPT>, Format=<OPT>, Start=<OPT>: from the start of
                   yesterday to its end by default
     cluster     - Accounts=<OPT>, QosList=<OPT>, Tree, Users=<OPT>, Wckeys=<OPT>
     job         - Accounts=<OPT>, AcctAsParent, FlatView, GID=<OPT>, Grouping=<OPT>, Jobs=<OPT>, Nodes=<OPT>,
                   Partitions=<OPT>, PrintJobCount, Users=<OPT>, Wckeys=<OPT>
     reservation - Ids=<OPT>, Names=<OPT>, Nodes=<OPT>
     user        - Accounts=<OPT>, Group, TopCount=<OPT>, Users=<OPT>

  Format=FIELD[%WIDTH],... selects the columns of a report.

  Note, valid start/end time formats are...
       HH:MM[:SS] [AM|PM]
       MMDD[YY] or MM/DD[/YY] or MM.DD[.YY]
       MM/DD[/YY]-HH:MM[:SS]
       YYYY-MM-DD[THH:MM[:SS]]
       now[{+|-}count[seconds(default)|minutes|hours|days|weeks]]

  All commands and options are case-insensitive."""

COMMAND = Command(
    NAME,
    "[<OPTION>] [<COMMAND>]",
    (
        Option("all_clusters", "a", help="use all clusters"),
        Option("cluster", "M", YES, "SREPORT_CLUSTER", "clusters to report on, or all", "names"),
        Option("clusters", "", YES, dest="cluster"),
        Option("federation", env="SREPORT_FEDERATION", help="the same as --local: no cluster is a member of one"),
        Option("local", env="SREPORT_LOCAL", help="the local cluster (the default)"),
        Option("noheader", "n", help="no header will be added to the beginning of output"),
        Option("parsable", "p", help="output will be '|' delimited with a '|' at the end"),
        Option("parsable2", "P", help="output will be '|' delimited without a '|' at the end"),
        Option("quiet", "Q", help="print no messages other than error messages"),
        *accepted("sort/s", note="each report has its own order of lines"),
        Option(
            "time", "t", YES, help="Seconds, Minutes, Hours, Percent, SecPer, MinPer or HourPer", metavar="time_format"
        ),
        Option("tres", "T", YES, "SREPORT_TRES", "comma separated list of TRES, or ALL", "tres"),
        Option("verbose", "v", help="verbosity level", counted=True),
    ),
    footer=FOOTER,
    shape=VALUES,
)

#: Reports by type, in the order in which abbreviations are resolved.
REPORTS: dict[str, tuple[str, ...]] = {
    "cluster": (
        "AccountUtilizationByUser", "AccountUtilizationByQOS", "UserUtilizationByAccount", "UserUtilizationByWckey",
        "Utilization", "WCKeyUtilizationByUser",
    ),
    "job": ("SizesByAccount", "SizesByWcKey", "SizesByAccountAndWcKey"),
    "reservation": ("Utilization",),
    "user": ("TopUsage",),
}  # fmt: skip
VERBS = tuple(REPORTS)
SHORT = {
    "au": "AccountUtilizationByUser", "aq": "AccountUtilizationByQOS", "ua": "UserUtilizationByAccount",
    "uw": "UserUtilizationByWckey", "wu": "WCKeyUtilizationByUser",
}  # fmt: skip
PROMPT = "sreport: "
NO_NODE = "TRES node usage is no longer reported in {}.  Please use TRES CPU instead."


def main() -> None:
    """The command sreport."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Runs one report, or several from standard input."""
    line = parse(COMMAND, argv, environment())
    if sum(1 for key in ("all_clusters", "cluster", "local") if line.values.flag(key)) > 1:
        raise CommandError("Only one cluster option can be used (--all_clusters OR --cluster OR --local)")
    if "time" in line.values:
        time_format(line.values.text("time"))  # reported before any request
    if line.positional:
        return answer(line.positional, line.values)
    need_own_process()
    return _converse(line.values)


def answer(texts: list[str], options: OptionValues) -> int:
    """Prints one report."""
    kind = next((name for name in REPORTS if name.startswith(texts[0].lower())), None)
    kind = "reservation" if texts[0].lower() == "resv" else kind
    if kind is None or not texts[0]:
        raise CommandError(f"invalid keyword: {texts[0]}", plain=True)
    if len(texts) < 2:
        raise CommandError(f"too few arguments for keyword:{texts[0]}", plain=True)
    name = _report_name(kind, texts[1])
    asked = read(kind, texts[2:], now_us())
    with Client.open() as client:
        clusters = named_clusters(NAME, _clusters(asked, options), client.cluster, client)
        if clusters == [client.cluster]:
            emit(_make(client, kind, name, asked, options))
            return 0

        def make(client: Client, number: int) -> int:
            of_cluster = OptionValues(options, noheader=bool(number) or options.flag("noheader"))
            emit(list(_make(client, kind, name, asked, of_cluster)))  # whole: another client may have to make it again
            return 0

        return in_turn(NAME, clusters, make, client)


def _clusters(asked: ReportQuestion, options: OptionValues) -> str:
    """The names of the clusters: the report's own, or those of the command's options."""
    if options.flag("all_clusters") or "all" in asked.flags:
        return ALL
    return ",".join(asked.of("clusters")) or options.text("cluster")


def _report_name(kind: str, word: str) -> str:
    names = REPORTS[kind]
    low = word.lower()
    if kind == "cluster" and low in SHORT:
        return SHORT[low]
    found = next((name for name in names if name.lower() == low), None)
    found = found or next((name for name in names if low and name.lower().startswith(low)), None)
    if found is None:
        quoted = ", ".join(f'"{name}"' for name in names)
        raise CommandError(f"Not valid report {word}\nValid {kind} reports are, {quoted}", plain=True)
    return found


def _make(client: Client, kind: str, name: str, asked: ReportQuestion, options: OptionValues) -> Iterable[str]:
    setting = setting_of(options)
    if options.text("tres"):
        from cli.listings.sreport_cluster import known_tres

        setting = setting._replace(tres=known_tres(client, options.text("tres")), tres_given=True)
        setting = _without_node(name, setting, named=options.text("tres").upper() != "ALL")
    return _builder(kind, name)(client, asked, setting)


def _builder(kind: str, name: str) -> Callable[[Client, ReportQuestion, Setting], Iterable[str]]:
    if kind == "reservation" or name == "Utilization":
        from cli.listings import sreport_cluster

        return sreport_cluster.reservations if kind == "reservation" else sreport_cluster.utilization
    if kind == "job":
        from cli.listings import sreport_jobs

        return lambda client, asked, setting: sreport_jobs.report(client, name, asked, setting)
    from cli.listings import sreport_usage

    return lambda client, asked, setting: sreport_usage.report(client, name, asked, setting)


def setting_of(options: OptionValues) -> Setting:
    """The options of the output."""
    delimited = options.flag("parsable") or options.flag("parsable2")
    style = TableStyle("|" if delimited else "", options.flag("parsable"), not options.flag("noheader"))
    return Setting(time_format(options.text("time")) if "time" in options else MINUTES, style)


def _without_node(name: str, setting: Setting, named: bool) -> Setting:
    """Refuses TRES node: shared nodes would be counted several times."""
    if "node" not in setting.tres or not (name == "Utilization" or setting.time.percent):
        return setting
    where = "the Cluster Utilization report" if name == "Utilization" else "percent format reports"
    if named:
        complain(NAME, NO_NODE.format(where), plain=True)
    rest = tuple(tres for tres in setting.tres if tres != "node")
    if not rest:
        raise CommandError("No valid TRES given", level="fatal")
    return setting._replace(tres=rest)


# -- commands from the standard input

_FLAGS = {
    "parsable": "parsable",
    "parsable2": "parsable2",
    "quiet": "quiet",
    "verbose": "verbose",
    "noheader": "noheader",
}


def _converse(options: OptionValues) -> int:
    """Reads commands until `exit` or the end of the input; returns the status of the last one that failed."""
    status, last = 0, ""
    while True:
        if sys.stdin.isatty():
            sys.stdout.write(PROMPT)
            sys.stdout.flush()
        text = sys.stdin.readline()
        if not text:
            return status
        last = last if text.strip() == "!!" else text
        try:
            texts = shlex.split(last)
            if texts and texts[0].lower() in ("exit", "quit"):
                return status
            if texts:
                _command(texts, options)
        except (CommandError, PenstockError, BadValue, ValueError) as error:
            shown = error.text if isinstance(error, CommandError | PenstockError) else str(error)
            complain(NAME, shown, plain=isinstance(error, CommandError) and error.plain)
            status = 1


def _command(texts: list[str], options: OptionValues) -> None:
    word = texts[0].lower()
    if word == "help":
        from cli.base.helptext import help_text

        emit([help_text(COMMAND)])
    elif word == "version":
        emit([VERSION_TEXT])
    elif word == "time" and len(texts) > 1:
        time_format(texts[1])
        options["time"] = texts[1]
    elif word == "nonparsable":
        options["parsable"] = options["parsable2"] = False
    elif word in _FLAGS:
        options[_FLAGS[word]] = True
    else:
        answer(texts, options)


if __name__ == "__main__":
    main()
