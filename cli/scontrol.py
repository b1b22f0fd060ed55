"""scontrol: look at and change the state of the cluster, one keyword at a time.

Keywords and entities are read in any case and may be cut short while they stay unique. What Slurm does not know fails in
Slurm's words. Without a keyword it reads lines and does what each says (prompt.py). A row of `VERBS` says how many words
a keyword takes; what is rare lives in modules that are loaded when they are asked for.
"""

from typing import NoReturn

from cli import reservation
from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.entities import ENTITIES, ENTITY_WORDS, WITH_JSON
from cli.jobverbs import Action, completing, control, listjobs, requeue, uid_of, update, wait_job, write
from cli.keywords import NAME, Call, Verb, check_count, find_word, lazily, of_steps
from cli.options import NO, YES, Command, Option, accepted, parse
from cli.run import CommandError, run

FOOTER = """Keywords:
  show job|step|node|partition|reservation [NAME]   state of one or all (-d details, -o one line each)
  create reservation [ReservationName=NAME] KEY=VALUE...
  create PartitionName=NAME KEY=VALUE... | NodeName=NAMES State=FUTURE|CLOUD KEY=VALUE...
  delete ReservationName=NAME | PartitionName=NAME | NodeName=NAMES
  show config                         the configuration in force
  show hostnames|hostlist|hostlistsorted [LIST]
  show licenses [NAME]                how many of each there are, and how many are used
  show topology [SWITCH|BLOCK|NODE]   switches or blocks (topoconf: as topology.conf)
  show story JOB                      what happened to a job, in order
  hold|uhold|release JOB...           keep pending jobs from starting, or no longer
  requeue|requeuehold JOB...          run again from the start (held, if so asked)
  suspend|resume JOB...               stop running jobs, and let them go on (operators)
  update JobId=|JobName=|NodeName=|PartitionName=|ReservationName= KEY=VALUE...
  top JOB...                          before one's other jobs of the same kind
  wait_job JOB                        until its nodes are ready
  reboot [ASAP] [nextstate=RESUME|DOWN] [reason=TEXT] ALL|NODES   when nothing runs there (cancel_reboot NODES)
  notify JOB TEXT                     a line for the error output of a job
  write batch_script JOB [FILE|-]     the script of a job, to slurm-JOB.sh if no file is named
  write config [FILE|-]               what is in force, as a slurm.conf
  power up|down [asap|force] NODES    refused: nothing switches nodes on and off
  setdebug LEVEL  setdebugflags [+|-]FLAG  fsdampeningfactor N   until the configuration is read again
  token [lifespan=SECONDS] [username=USER]   with AuthAltTypes=auth/jwt
  liststeps [NODE]  listpids [JOB[.STEP] [NODE]]  pidinfo PID   on this node, or the one that is named
  getaddrs NODES  getent NODE         addresses of nodes; users and groups of the jobs on one
  completing  listjobs [NODE]  ping  reconfigure  shutdown  version  errnumstr NUMBER
Of show also: assoc_mgr aliases burstbuffer daemons dwstat federation slurmd
Without a keyword: lines from the input, until exit, quit or its end; !! repeats the last one."""

COMMAND = Command(
    NAME,
    "[OPTIONS...] [KEYWORD [ARGUMENTS...]]",
    (
        Option("all", "a", help="also show hidden partitions"),
        Option("details", "d", help="show more"),
        Option("future", "F", help="also show nodes that are not there yet"),
        Option("oneliner", "o", help="one record on each line"),
        Option("quiet", "Q", help="print errors only"),
        Option("hide", help="do not show hidden partitions"),
        Option("local", help="accepted; there is one cluster"),
        Option("verbose", "v", help="accepted", counted=True),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "name the cluster to ask", "name"),
        Option("cluster", "", YES, dest="clusters"),
        Option(
            "uid", "u", YES, help="update a job with this user's rights", metavar="user", convert=uid_of,
            invalid='--uid="{value}" invalid',
        ),
        *DOCUMENT_OPTIONS,
        *accepted("federation", "sibling", value=NO, note="there is one cluster"),
    ),
    footer=FOOTER,
)  # fmt: skip


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Find the keyword and do it."""
    import os

    line = parse(COMMAND, _with_flags_apart(argv), os.environ)
    if line.values.get("clusters"):
        _check_cluster(line.values["clusters"])
    if line.positional:
        return do(line.positional, line.values)
    from cli.prompt import read_lines

    return read_lines(NAME, lambda words: _typed(words, line.values), lambda text: text.lower() in ("exit", "quit"))


def _typed(words: list[str], options: dict[str, object]) -> int:
    if words[0].lower() in ("exit", "quit"):
        raise CommandError(f"too many arguments for keyword:{words[0].lower()}", plain=True)
    return do(words, options)


def _with_flags_apart(argv: list[str]) -> list[str]:
    """What follows setdebugflags (`-Backfill`) is no option."""
    for at, word in enumerate(argv):
        if len(word) > len("setdebug") and "setdebugflags".startswith(word.lower()):
            return [*argv[: at + 1], "--", *argv[at + 1 :]]
    return argv


def do(words: list[str], options: dict[str, object]) -> int:
    """One keyword with its words."""
    keyword, *rest = words
    name = find_word(keyword, VERBS)
    if name is None:
        raise CommandError(f"invalid keyword: {keyword}", plain=True)
    check_count(VERBS[name], rest, name)
    try:
        return VERBS[name].run(Call(rest, options))
    except CommandError as error:
        if error.plain and options.get("quiet"):
            return error.status
        raise


def _check_cluster(text: str) -> None:
    from cli.listing import check_clusters
    from penstock.cluster import find_cluster

    if "," in text:
        raise CommandError("Only one cluster can be used at a time with scontrol")
    check_clusters(text, find_cluster().cluster_name)


def show_entity(call: Call) -> int:
    """`show ENTITY [NAME]`, `show ENTITY=NAME`."""
    entity, *words = call.words
    entity, equals, value = entity.partition("=")
    if equals:
        words = [value, *words]
    name = find_word(entity, ENTITIES) if entity.lower() not in ENTITY_WORDS else ENTITY_WORDS[entity.lower()]
    if name is None:
        raise CommandError(f"invalid entity:{entity} for keyword:show ", plain=True)
    check_count(ENTITIES[name], words, "show")
    if is_wanted(call.options) and name not in WITH_JSON:
        raise CommandError(f"show {name} has no --json and no --yaml")
    return ENTITIES[name].run(call._replace(words=words))


def switch(name: str, value: bool = True, *others: str) -> Verb:
    """A keyword that sets an option for the lines that follow."""

    def set_option(call: Call) -> int:
        for other in others:
            call.options.pop(other, None)
        if value:
            call.options[name] = True
        else:
            call.options.pop(name, None)
        return 0

    return Verb(0, 0, set_option)


def cluster(call: Call) -> int:
    """`cluster NAME`: which one the lines that follow are for."""
    _check_cluster(call.words[0])
    return 0


def help_line(call: Call) -> int:
    """`help`."""
    from cli.options import help_text

    print(help_text(COMMAND))  # noqa: T201
    return 0


VERBS = {
    "show": Verb(1, -1, show_entity),
    "hold": Verb(1, -1, control(Action.HOLD, "slurm_suspend")),
    "uhold": Verb(1, -1, control(Action.USER_HOLD, "slurm_suspend")),
    "holdu": Verb(1, -1, control(Action.USER_HOLD, "slurm_suspend")),
    "release": Verb(1, -1, control(Action.RELEASE, "slurm_suspend")),
    "requeue": Verb(1, -1, requeue(Action.REQUEUE)),
    "requeuehold": Verb(1, -1, requeue(Action.REQUEUE_HOLD)),
    "suspend": Verb(1, -1, control(Action.SUSPEND, "slurm_suspend")),
    "resume": Verb(1, -1, control(Action.RESUME, "slurm_resume")),
    "top": Verb(1, -1, control(Action.TOP, "slurm_top_job")),
    "update": Verb(1, -1, update),
    "create": Verb(1, -1, reservation.create),
    "delete": Verb(1, -1, reservation.delete),
    "write": Verb(1, 3, write),
    "wait_job": Verb(1, 1, wait_job),
    "completing": Verb(0, 0, completing),
    "listjobs": Verb(0, 1, listjobs),
    "liststeps": Verb(0, 1, of_steps("liststeps")),
    "listpids": Verb(0, 2, of_steps("listpids")),
    "pidinfo": Verb(1, 1, of_steps("pidinfo")),
    "notify": Verb(2, -1, of_steps("notify")),
    **{
        name: Verb(least, most, lazily("cli.ctladmin", name))
        for name, least, most in (
            ("abort", 0, 0), ("cancel_reboot", 1, 1), ("errnumstr", 1, 1), ("fsdampeningfactor", 1, 1), ("getaddrs", 1, -1),
            ("getent", 1, 1), ("ping", 0, 0), ("power", 1, 5), ("reboot", 0, 4), ("reconfigure", 0, 0),
            ("schedloglevel", 1, 1), ("setdebug", 1, 1), ("setdebugflags", 1, -1), ("shutdown", 0, 1), ("takeover", 0, 1),
            ("token", 0, 2), ("version", 0, 0),
        )
    },
    "all": switch("all", True, "hide"),
    "hide": switch("all", False),
    "details": switch("details"),
    "oneliner": switch("oneliner"),
    "quiet": switch("quiet", True, "verbose"),
    "verbose": switch("verbose", True, "quiet"),
    "cluster": Verb(1, 1, cluster),
    "help": Verb(0, 0, help_line),
}  # fmt: skip

if __name__ == "__main__":
    main()
