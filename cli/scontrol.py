"""scontrol: shows and changes the state of the cluster, one keyword at a time.

Keywords and entities are case-insensitive and may be abbreviated while unique. Unknown ones fail with Slurm's messages.
Without a keyword it is interactive (base/prompt.py). A row of `VERBS` has the number of words of a keyword; rare
keywords are in modules that are imported on demand.
"""

from typing import NoReturn

from cli.base.document import DOCUMENT_OPTIONS, is_wanted
from cli.base.options import NO, VALUES, YES, Command, Option, OptionValues, accepted, parse
from cli.base.run import CommandError, run
from cli.control import reservation
from cli.control.entities import ENTITIES, ENTITY_WORDS, WITH_JSON
from cli.control.jobverbs import JobControl, completing, control, listjobs, requeue, uid_of, update, wait_job, write
from cli.control.keywords import NAME, KeywordCall, Verb, check_count, find_word, lazily, of_steps

FOOTER = """\
  Without a command scontrol reads lines from the input, until exit, quit or its end.

    Valid <COMMAND> values are:
     abort                    stop the controller at once
     all                      show hidden partitions, too
     cancel_reboot <nodelist> cancel a reboot that waits
     cluster <name>           name the cluster to ask
     completing               show jobs that are completing, and their nodes
     create <SPECIFICATIONS>  create a reservation, a partition or nodes: reservation [ReservationName=],
                              PartitionName=, or NodeName= with State=FUTURE|CLOUD
     delete <SPECIFICATIONS>  delete ReservationName=, PartitionName= or NodeName=
     details                  show more
     errnumstr <ERRNO>        the meaning of an error number
     exit                     end scontrol
     fsdampeningfactor <factor>  set FairShareDampeningFactor until the configuration is read again
     getaddrs <nodelist>      addresses of nodes
     getent <node>            users and groups of the jobs on a node
     help                     print this text
     hide                     do not show hidden partitions
     hold <job_list>          keep pending jobs from starting
     holdu <job_list>         the same, so that the user may release them (also: uhold)
     listjobs [<node>]        jobs on this node, or on the one that is named
     listpids [<job_id>[.<step>] [<node>]]  processes of jobs on a node
     liststeps [<node>]       steps on a node
     notify <job_id> <text>   write a line to the error output of a job
     oneliner                 one record on each line
     pidinfo <pid>            the job of a process on this node
     ping                     whether the controller answers
     power up|down [asap|force] <nodelist>  refused: nothing switches nodes on and off
     quiet                    print errors only
     quit                     end scontrol
     reboot [ASAP] [nextstate=RESUME|DOWN] [reason=<text>] <ALL|nodelist>
                              reboot nodes when nothing runs there
     reconfigure              read the configuration again
     release <job_list>       let held jobs start
     requeue <job_list>       run jobs again from the start
     requeuehold <job_list>   the same, held
     resume <job_list>        continue suspended jobs
     schedloglevel <SLEVEL>   set the log of scheduling
     setdebug <LEVEL> [nodes=<NODES>]  set the level of the controller's log, or of these nodes', until the
                              configuration is read again
     setdebugflags [+|-]<flag> [nodes=<NODES>]  add or remove flags of the controller's log, or of these nodes'
     show <ENTITY> [<ID>]     print an entity, or all
     shutdown <OPTS>          stop the daemons
     suspend <job_list>       stop the processes of running jobs
     takeover [<number>]      let a backup controller take over
     token [lifespan=] [username=]  print a token, with AuthAltTypes=auth/jwt
     token revoke [username= | all] end the tokens that exist
     top <job_list>           put jobs before the user's other jobs
     uhold <job_list>         the same as holdu
     update <SPECIFICATIONS>  change JobId=, JobName=, NodeName=, PartitionName=, ReservationName= or StepId=
     verbose                  print more messages
     version                  print the version
     wait_job <job_id>        wait until the nodes of a job are ready
     write batch_script <job_id> [<file>|-]  write the script of a job, to slurm-<job_id>.sh by default
     write config [<file>|-]  write the configuration in force
     !!                       repeat the last line

  <ENTITY> may be "aliases", "assoc_mgr", "bbstat", "burstbuffer", "config",
       "daemons", "dwstat", "federation", "hostlist", "hostlistsorted",
       "hostnames", "job", "licenses", "node", "partition", "reservation",
       "slurmd", "step", "story" or "topology"

  <ID> may be the name or number of an entity, a list of nodes, or the path
       of a file with names of nodes.

  <LEVEL> may be a number from 0 to 9, or a name such as "info" or "debug".

  <SLEVEL> may be a number, "enable" or "disable".

  <OPTS> may be "slurmctld" or "controller" to stop the controller alone.

  <SPECIFICATIONS> are KEY=VALUE, as "show" prints them.

  Lists of nodes may have ranges: lx[10-20]. All commands and options are
  case-insensitive; names of nodes and partitions are not."""

COMMAND = Command(
    NAME,
    "[<OPTION>] [<COMMAND>]",
    (
        Option("all", "a", env="SCONTROL_ALL", help="also show hidden partitions"),
        Option("details", "d", help="show more"),
        Option("future", "F", env="SCONTROL_FUTURE", help="also show nodes that do not exist yet"),
        Option("oneliner", "o", help="one record on each line"),
        Option("quiet", "Q", help="print errors only"),
        Option("hide", help="do not show hidden partitions"),
        Option("local", env="SCONTROL_LOCAL", help="accepted; the local cluster is the default"),
        Option("verbose", "v", help="accepted", counted=True),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "cluster to issue commands to", "name"),
        Option("cluster", "", YES, dest="clusters"),
        Option(
            "uid", "u", YES, help="update a job with this user's rights", metavar="user", convert=uid_of,
            invalid='--uid="{value}" invalid',
        ),
        *DOCUMENT_OPTIONS,
        *(
            option._replace(env=f"SCONTROL_{option.name.upper()}")
            for option in accepted("federation", "sibling", value=NO, note="there are no federations")
        ),
    ),
    footer=FOOTER,
    shape=VALUES,
)  # fmt: skip


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Finds the keyword and runs it."""
    import os

    line = parse(COMMAND, _with_flags_apart(argv), os.environ)
    if line.values.text("clusters"):
        _use_cluster(line.values.text("clusters"))
    if line.positional:
        return do(line.positional, line.values)
    from cli.base.prompt import read_lines

    return read_lines(NAME, lambda words: _typed(words, line.values), lambda text: text.lower() in ("exit", "quit"))


def _typed(words: list[str], options: OptionValues) -> int:
    if words[0].lower() in ("exit", "quit"):
        raise CommandError(f"too many arguments for keyword:{words[0].lower()}", plain=True)
    return do(words, options)


def _with_flags_apart(argv: list[str]) -> list[str]:
    """Arguments of setdebugflags (`-Backfill`) are not options."""
    for at, word in enumerate(argv):
        if len(word) > len("setdebug") and "setdebugflags".startswith(word.lower()):
            return [*argv[: at + 1], "--", *argv[at + 1 :]]
    return argv


def do(words: list[str], options: OptionValues) -> int:
    """Runs one keyword with its words."""
    keyword, *rest = words
    name = find_word(keyword, VERBS)
    if name is None:
        raise CommandError(f"invalid keyword: {keyword}", plain=True)
    check_count(VERBS[name], rest, name)
    try:
        return VERBS[name].run(KeywordCall(rest, options))
    except CommandError as error:
        if error.plain and options.flag("quiet"):
            return error.status
        raise


def _use_cluster(text: str) -> None:
    """Makes the named cluster the one of all that follows."""
    from cli.base.clusters import one_cluster
    from penstock.cluster import find_cluster
    from penstock.clusters import select_cluster

    own = find_cluster()
    select_cluster(one_cluster(NAME, text, own), own)


def show_entity(call: KeywordCall) -> int:
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
    """Handles a keyword that sets an option for the lines that follow."""

    def set_option(call: KeywordCall) -> int:
        for other in others:
            call.options.pop(other, None)
        if value:
            call.options[name] = True
        else:
            call.options.pop(name, None)
        return 0

    return Verb(0, 0, set_option)


def cluster(call: KeywordCall) -> int:
    """`cluster NAME`: selects the cluster for the lines that follow."""
    _use_cluster(call.words[0])
    return 0


def help_line(call: KeywordCall) -> int:
    """`help`."""
    from cli.base.helptext import help_text

    print(help_text(COMMAND))  # noqa: T201
    return 0


VERBS = {
    "show": Verb(1, -1, show_entity),
    "hold": Verb(1, -1, control(JobControl.HOLD, "slurm_suspend")),
    "uhold": Verb(1, -1, control(JobControl.USER_HOLD, "slurm_suspend")),
    "holdu": Verb(1, -1, control(JobControl.USER_HOLD, "slurm_suspend")),
    "release": Verb(1, -1, control(JobControl.RELEASE, "slurm_suspend")),
    "requeue": Verb(1, -1, requeue(JobControl.REQUEUE)),
    "requeuehold": Verb(1, -1, requeue(JobControl.REQUEUE_HOLD)),
    "suspend": Verb(1, -1, control(JobControl.SUSPEND, "slurm_suspend")),
    "resume": Verb(1, -1, control(JobControl.RESUME, "slurm_resume")),
    "top": Verb(1, -1, control(JobControl.TOP, "slurm_top_job")),
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
        name: Verb(least, most, lazily("cli.control.ctladmin", name))
        for name, least, most in (
            ("abort", 0, 0), ("cancel_reboot", 1, 1), ("errnumstr", 1, 1), ("fsdampeningfactor", 1, 1), ("getaddrs", 1, -1),
            ("getent", 1, 1), ("ping", 0, 0), ("power", 1, 5), ("reboot", 0, 4), ("reconfigure", 0, 0),
            ("schedloglevel", 1, 1), ("setdebug", 1, 2), ("setdebugflags", 1, -1), ("shutdown", 0, 1), ("takeover", 0, 1),
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
