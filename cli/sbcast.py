"""sbcast: copies a file to all nodes of a job.

    sbcast [-f] [-p] SOURCE DEST

The file goes through a small step with one task a node (cli/steps/copier.py), which writes it with the user's own
rights and renames it into place. DEST is a path on the nodes; a relative one starts at the current folder; with `/` at
its end it is a folder, and the file is called slurm_bcast_JOB_NAME.

Fan-out, block size and compression are accepted and have no effect: the data go once to each node, over TLS.
"""

import os

# Any: a converter of the table of options: text to a value of any type
from typing import TYPE_CHECKING, Any, NoReturn

from cli.base.jobids import is_known, selector_text
from cli.base.options import MAYBE, NUMERIC, YES, Command, Option, OptionValues, later, parse
from cli.base.run import CommandError, complain, run
from cli.base.stepids import own_job_id
from penstock.client import Client
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selector
from penstock.values.numbers import parse_int
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    from cli.steps.copier import File

NAME = "sbcast"
#: Folders whose shared libraries are expected on all nodes (Slurm's default of BcastExclude).
EXCLUDED = ("/lib/", "/usr/lib/", "/lib64/", "/usr/lib64/")
LIBRARIES_MAX = 1_000


def _number(what: str) -> Any:
    return lambda text: parse_int(text.rstrip("kKmM") or text, 0, 2**31 - 1, what)


def _yes_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise BadValue(f"{text!r} is neither yes nor no")
    return text.lower() == "yes"


COMMAND = Command(
    NAME,
    "[OPTIONS] SOURCE DEST",
    (
        Option("compress", "C", MAYBE, "SBCAST_COMPRESS", "accepted; the data are not compressed", "library"),
        Option("exclude", value=YES, env="SBCAST_EXCLUDE", help="folders whose libraries are not sent", metavar="paths"),
        Option("fanout", "F", YES, "SBCAST_FANOUT", "accepted; every node gets the data directly", "num",
               convert=_number("fanout"), invalid=NUMERIC),
        Option("force", "f", env="SBCAST_FORCE", help="replace destination file as required"),
        Option("jobid", "j", YES, help="specify job ID and optional step ID", metavar="jobID[.stepID]"),
        Option("preserve", "p", env="SBCAST_PRESERVE", help="preserve modes and times of source file"),
        Option("quiet", "Q", help="print errors only"),
        Option("send-libs", "", MAYBE, "SBCAST_SEND_LIBS", "send the shared libraries of the file, too", "yes|no",
               convert=_yes_no),
        Option("size", "s", YES, "SBCAST_SIZE", "accepted; the size of blocks is fixed", "num",
               convert=_number("size"), invalid=NUMERIC),
        Option("timeout", "t", YES, "SBCAST_TIMEOUT", "accepted; a copy has no time limit", "secs",
               convert=_number("timeout"), invalid=NUMERIC),
        Option("treewidth", "", YES, dest="fanout", convert=_number("treewidth")),
        Option("verbose", "v", help="show what is copied where", counted=True),
        *later("no-allocation/Z", value="no", note="a file is sent to the nodes of a job, and only there"),
    ),
    interspersed=False,
)  # fmt: skip

#: Slurm's exit status for a job that is not there.
LOOKUP_STATUS = 255


def main() -> NoReturn:
    """Entry point."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Copies the file."""
    line = parse(COMMAND, argv, os.environ)
    options = line.values
    if len(line.positional) != 2:
        text = f'Need two file names, have {len(line.positional)} names\nTry "sbcast --help" for more information'
        raise CommandError(text, plain=True)
    source, dest = line.positional
    job = _job(options)
    status = os.stat(source)
    if not os.path.isfile(source):
        raise CommandError(f"Can't open `{source}`: not a regular file")
    from cli.steps.copier import File, copy
    from cli.steps.creation import StepMaker

    here = os.getcwdb()
    target = target_of(source, dest, here, job.job_id)
    time_s = f"{status.st_mtime_ns / 1e9:.9f}" if options.flag("preserve") else ""
    with Client.open() as client:
        if not is_known(client, selector_text(job), ended=True):
            what = f"Slurm job {selector_text(job)} lookup error: {TEXT[Code.INVALID_JOB_ID]}"
            raise CommandError(what, LOOKUP_STATUS)
        file = File(source, target, status.st_mode & 0o777, time_s, options.flag("force"), _nodes(client, job))
        maker = StepMaker(client, job.job_id, lambda text: _say(options, text), NAME)
        files = [file, *_libraries(options, file)]
        for one in files:
            if options.flag("verbose"):
                _say(options, f"{one.source} -> {os.fsdecode(one.target)}")
            failed = copy(client.cluster, maker, one, here, NAME)
            if failed:
                return 1
    return 0


def _say(options: OptionValues, text: str) -> None:
    if not options.flag("quiet"):
        complain(NAME, f"{NAME}: {text}", plain=True)


def _job(options: OptionValues) -> JobSelector:
    if "jobid" in options:
        try:
            return parse_selector(options.text("jobid"))
        except BadValue as error:
            raise CommandError(f"Invalid job id {options.text('jobid')[:80]}: {error}") from error
    job_id = own_job_id()
    if not job_id:
        raise CommandError("Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.")
    return JobSelector(job_id)


def _nodes(client: Client, job: JobSelector) -> str:
    """The nodes of the given step; "" = all of the job."""
    if job.step_id is None:
        return ""
    from cli.base.stepids import list_steps

    steps = list_steps(client, [job])
    if not steps:
        raise CommandError(f"Job step {job.job_id}.{job.step_id} not found")
    return steps[0].node_list


def target_of(source: str, dest: str, here: bytes, job_id: int) -> bytes:
    """The destination path on each node."""
    path = os.path.join(here, os.fsencode(dest))
    if path.endswith(b"/"):
        path += b"slurm_bcast_%d_" % job_id + os.fsencode(os.path.basename(source))
    return path


def _libraries(options: OptionValues, program: "File") -> "list[File]":
    """The shared libraries of a program, for a folder beside its copy."""
    if not options.flag("send_libs"):
        return []
    import subprocess

    listed = subprocess.run(
        ["ldd", program.source], capture_output=True, check=False, text=True, errors="surrogateescape"
    )
    given = options.of(str, "exclude")
    excluded = EXCLUDED if given is None else tuple(p.rstrip("/") + "/" for p in given.split(",") if p and p != "none")
    found = []
    for words in map(str.split, listed.stdout.splitlines()):
        path = next((word for word in words if word.startswith("/")), "")
        if path and not os.path.realpath(path).startswith(excluded) and not path.startswith(excluded):
            target = os.path.join(program.target + b"_libs", os.fsencode(os.path.basename(path)))
            found.append(program._replace(source=path, target=target, mode=0o755, force=True, make_folder=True))
    if len(found) > LIBRARIES_MAX:
        raise CommandError(f"{program.source} has {len(found)} shared libraries, the limit is {LIBRARIES_MAX}")
    return found


if __name__ == "__main__":
    main()
