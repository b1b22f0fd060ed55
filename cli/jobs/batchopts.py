"""The option table of sbatch: those of a job (cli/jobs/jobopts.py), and its own. Reads nothing."""

from cli.base.options import MAYBE, NO, STATUS_WRONG_LINE, YES, Command, Option
from cli.base.requestkey import REQUEST_KEY
from cli.jobs.jobopts import HELP_GROUPS, JOB_OPTIONS, with_environment

PREFIX = "SBATCH_"


def _own(name: str, value: str, what: str) -> Option:
    """An option that Slurm does not have."""
    const = True if value == NO else ""
    return Option(name, "", value, help=what, metavar="data_parser", const=const, own=True, note="not in Slurm")


COMMAND = Command(
    "sbatch",
    "[OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]",
    with_environment(
        (
            *JOB_OPTIONS,
            Option("ignore-pbs", help="ignore #PBS and #BSUB options in the batch script"),
            _own("json", MAYBE, "with --lint: its findings as JSON"),
            _own("lint", NO, "check the script for mistakes and whether it could run; queue nothing"),
            Option("parsable", help="print only the job id, and the cluster's name with --clusters"),
            Option("quiet", "Q", help="quiet mode (suppress informational messages)"),
            REQUEST_KEY,
            Option("test-only", help="show when and where the job would start, submit nothing"),
            Option("verbose", "v", help="verbose mode: show the options in force", counted=True),
            _own("yaml", MAYBE, "with --lint: its findings as YAML"),
            Option("wait", "W", help="wait until the job has ended, exit with its code"),
            Option("wrap", "", YES, help="submit this command in a sh script", metavar="command"),
        ),
        PREFIX,
    ),
    interspersed=False,
    usage_end="executable [args...]",
    groups=HELP_GROUPS,
    wrong_status=STATUS_WRONG_LINE,
)
