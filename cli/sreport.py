"""sreport: usage of the cluster by account, user, wckey, QOS, size of jobs, and of reservations.

    sreport cluster AccountUtilizationByUser start=2026-11-01 end=2026-12-01 tree -t Hours -T cpu,gres/gpu
    sreport user TopUsage TopCount=5
    sreport job SizesByAccount Grouping=8,64,512

Everything is from the roll-ups of the controller's database (Report), which are exact for whole hours; the hour that runs is
never in a report. Words may be cut short, the first that begins so is meant. Without words commands are read from the
standard input, as Slurm's sreport does.

Which lines stand where is said in sreport_usage.py, sreport_cluster.py and sreport_jobs.py; words in sreport_words.py,
columns in sreport_fields.py.
"""

import shlex
import sys
from collections.abc import Callable, Iterable
from typing import Any

from cli.format import TableStyle
from cli.listing import check_clusters, emit, environment, now_us
from cli.options import VERSION_TEXT, YES, Command, Option, accepted, help_text, parse
from cli.run import CommandError, complain, need_own_process, run
from cli.sreport_fields import Setting
from cli.sreport_words import MINUTES, Asked, read, time_format
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.values.errors import BadValue

NAME = "sreport"
COMMAND = Command(
    NAME,
    "[<OPTION>] [<COMMAND>]",
    (
        Option("all_clusters", "a", help="use all clusters (there is one)"),
        Option("cluster", "M", YES, "SREPORT_CLUSTER", "the cluster to report of", "names"),
        Option("clusters", "", YES, dest="cluster"),
        Option("federation", env="SREPORT_FEDERATION", help="as --local, as no cluster is a member of one"),
        Option("local", env="SREPORT_LOCAL", help="the local cluster (the default)"),
        Option("noheader", "n", help="no header will be added to the beginning of output"),
        Option("parsable", "p", help="output will be '|' delimited with a '|' at the end"),
        Option("parsable2", "P", help="output will be '|' delimited without a '|' at the end"),
        Option("quiet", "Q", help="print no messages other than error messages"),
        *accepted("sort/s", note="lines have the order that each report says"),
        Option(
            "time", "t", YES, help="Seconds, Minutes, Hours, Percent, SecPer, MinPer or HourPer", metavar="time_format"
        ),
        Option("tres", "T", YES, "SREPORT_TRES", "comma separated list of TRES, or ALL", "tres"),
        Option("verbose", "v", help="verbosity level", counted=True),
    ),
    footer="""Commands:
  cluster AccountUtilizationByUser|AccountUtilizationByQOS|UserUtilizationByAccount|UserUtilizationByWckey|
          WCKeyUtilizationByUser|Utilization [Accounts= Users= Wckeys= QosList= Tree]
  job SizesByAccount|SizesByWcKey|SizesByAccountAndWcKey [Accounts= AcctAsParent FlatView GID= Grouping= Jobs= Nodes=
          Partitions= PrintJobCount Users= Wckeys=]
  reservation Utilization [Ids= Names= Nodes=]
  user TopUsage [Accounts= Group TopCount= Users=]
  each with [All_Clusters] [Clusters=] [Start=] [End=] [Format=FIELD[%WIDTH],...]; Start is yesterday, End is today""",
)

#: Reports by type, in the order in which a word that is cut short is looked up.
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
    """One run: a report, or many from the standard input."""
    line = parse(COMMAND, argv, environment())
    if sum(1 for key in ("all_clusters", "cluster", "local") if line.values.get(key)) > 1:
        raise CommandError("Only one cluster option can be used (--all_clusters OR --cluster OR --local)")
    if "time" in line.values:
        time_format(line.values["time"])  # said before anything is asked
    if line.positional:
        return answer(line.positional, line.values)
    need_own_process()
    return _converse(line.values)


def answer(texts: list[str], options: dict[str, Any]) -> int:
    """One report."""
    kind = next((name for name in REPORTS if name.startswith(texts[0].lower())), None)
    kind = "reservation" if texts[0].lower() == "resv" else kind
    if kind is None or not texts[0]:
        raise CommandError(f"invalid keyword: {texts[0]}", plain=True)
    if len(texts) < 2:
        raise CommandError(f"too few arguments for keyword:{texts[0]}", plain=True)
    name = _report_name(kind, texts[1])
    asked = read(kind, texts[2:], now_us())
    with Client.open() as client:
        check_clusters(",".join([options.get("cluster") or "", *asked.of("clusters")]), client.cluster.cluster_name)
        lines = _make(client, kind, name, asked, options)
    emit(lines)
    return 0


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


def _make(client: Client, kind: str, name: str, asked: Asked, options: dict[str, Any]) -> Iterable[str]:
    setting = setting_of(options)
    if options.get("tres"):
        from cli.sreport_cluster import known_tres

        setting = setting._replace(tres=known_tres(client, options["tres"]), tres_given=True)
        setting = _without_node(name, setting, named=options["tres"].upper() != "ALL")
    return _builder(kind, name)(client, asked, setting)


def _builder(kind: str, name: str) -> Callable[[Client, Asked, Setting], Iterable[str]]:
    if kind == "reservation" or name == "Utilization":
        from cli import sreport_cluster

        return sreport_cluster.reservations if kind == "reservation" else sreport_cluster.utilization
    if kind == "job":
        from cli import sreport_jobs

        return lambda client, asked, setting: sreport_jobs.report(client, name, asked, setting)
    from cli import sreport_usage

    return lambda client, asked, setting: sreport_usage.report(client, name, asked, setting)


def setting_of(options: dict[str, Any]) -> Setting:
    """How the output is to look."""
    delimited = options.get("parsable") or options.get("parsable2")
    style = TableStyle("|" if delimited else "", bool(options.get("parsable")), not options.get("noheader"))
    return Setting(time_format(options["time"]) if "time" in options else MINUTES, style)


def _without_node(name: str, setting: Setting, named: bool) -> Setting:
    """Nodes that several jobs share would be counted several times."""
    if "node" not in setting.tres or not (name == "Utilization" or setting.time.percent):
        return setting
    where = "the Cluster Utilization report" if name == "Utilization" else "percent format reports"
    if named:
        complain(NAME, NO_NODE.format(where), plain=True)
    rest = tuple(tres for tres in setting.tres if tres != "node")
    if not rest:
        raise CommandError("No valid TRES given")
    return setting._replace(tres=rest)


# -- commands from the standard input

_FLAGS = {
    "parsable": "parsable",
    "parsable2": "parsable2",
    "quiet": "quiet",
    "verbose": "verbose",
    "noheader": "noheader",
}


def _converse(options: dict[str, Any]) -> int:
    """Read commands until `exit` or the end of the input; the status of the last one that failed."""
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


def _command(texts: list[str], options: dict[str, Any]) -> None:
    word = texts[0].lower()
    if word == "help":
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
