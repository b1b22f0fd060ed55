"""scrontab: lists, edits, removes or loads a user's crontab, which the controller keeps.

All errors are reported at once, before the request; the controller accepts all or nothing. With -e the editor is
started again after an error, with the lines in question after #BAD.

Statuses: 0; 1 for errors, and for -l without a crontab. Messages go to stdout where Slurm's do.
"""

import errno
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from cli.base.options import YES, Command, Option, OptionValues, parse
from cli.base.output import verbatim
from cli.base.run import CommandError, complain, run, warn
from cli.base.users import find_entry
from cli.jobs.crontab import CRONTAB_BYTES_MAX, TOO_LARGE, CrontabError, Owner, decode, mark, read
from penstock.boundedfile import read_all, read_bounded
from penstock.client import Client, ReplyMessage
from penstock.errors import PenstockError
from penstock.v1.periodic_pb2 import GetCrontabRequest, UpdateCrontabReply, UpdateCrontabRequest
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    from penstock.client import Message

DISABLED, BAD = "#DISABLED: ", "#BAD: "
RETRY = "Do you want to retry the edit? (y/n) "

COMMAND = Command(
    "scrontab",
    "[-u user] [-l | -e | -r | file | -]",
    (
        Option("edit", "e", help="edit the crontab with $VISUAL, $EDITOR or vi"),
        Option("list", "l", help="print the crontab"),
        Option("remove", "r", help="remove the crontab: running jobs continue and do not recur"),
        Option("user", "u", YES, help="of another user: operators may list, administrators change it", metavar="user"),
        Option("verbose", "v", help="show the jobs' ids", counted=True),
    ),
)

NEW = """\
# This is your crontab for the cluster. Each entry is one line:
#
#     minute hour day-of-month month day-of-week command
#
# as in cron, or with a word for the time: @hourly, @daily, @weekly, @monthly, @yearly.
# The controller's clock counts. Lines with #SCRON hold options of sbatch for the next entry. For example:
#
#     #SCRON --time=10 --mem=1G
#     0 5 * * 1-5 /my/script/to/run
#
"""


def main() -> NoReturn:
    """Entry point."""
    run(COMMAND.name, body)


def body(argv: list[str]) -> int:
    """Runs the chosen action."""
    line = parse(COMMAND, argv)
    values, files = line.values, line.positional
    asked = [name for name in ("edit", "list", "remove") if values.flag(name)]
    if len(asked) > 1 or len(files) > 1 or (asked and files):
        raise CommandError(f"expected one of -e, -l, -r or a file\nUsage: {COMMAND.name} {COMMAND.synopsis}")
    owner = _owner(values.text("user"))
    if not asked and not files:
        asked = ["edit"] if sys.stdin.isatty() else []
    with Client.open() as client:
        crontab = _Crontab(client, owner, values)
        if asked == ["remove"]:
            return crontab.remove()
        if asked == ["list"]:
            return crontab.show()
        return crontab.edit() if asked else crontab.install(files[0] if files else "-")


def _owner(user: str) -> Owner:
    entry = find_entry(user or str(os.getuid()))
    if entry is None:
        raise _fatal(f"Could not find user {user or os.getuid()}")
    return Owner(entry.pw_name, entry.pw_dir, entry.pw_shell)


def _fatal(text: str) -> CommandError:
    return CommandError(f"{COMMAND.name}: fatal: {text}", plain=True)


class _Crontab:
    """One user's crontab on the controller."""

    def __init__(self, client: Client, owner: Owner, values: OptionValues) -> None:
        self.client = client
        self.owner = owner
        self.user = values.text("user")
        self.verbose = values.flag("verbose")

    def _call(self, method: str, request: "Message") -> ReplyMessage:
        try:
            return self.client.call(method, request)
        except PenstockError as error:
            if error.code == Code.CRON_DISABLED:
                raise _fatal(TEXT[Code.CRON_DISABLED]) from error
            raise

    def _get(self) -> str | None:
        """The text to show; None = no crontab."""
        reply = self._call("GetCrontab", GetCrontabRequest(user=self.user))
        if not reply.found:
            return None
        return mark(reply.text, [(lines.first, lines.last) for lines in reply.disabled], DISABLED)

    def show(self) -> int:
        """Prints it."""
        text = self._get()
        if text is None:
            print(f"no crontab for {self.owner.name}")  # noqa: T201
            return 1
        verbatim(text)
        return 0

    def remove(self) -> int:
        """Removes it. Without one there is nothing to do, as in Slurm."""
        try:
            self._call("UpdateCrontab", UpdateCrontabRequest(user=self.user, remove=True))
        except PenstockError as error:
            if error.code != Code.NO_CRONTAB:
                raise
        return 0

    def install(self, path: str) -> int:
        """Installs a file."""
        self._get()  # if scrontab is disabled, that error comes first
        text = decode(_read(path))
        return self._submit(text)[0]

    def edit(self) -> int:
        """Lets the user edit it until it is valid, or they give up."""
        if not sys.stdin.isatty():
            raise _fatal("Standard input is not a TTY")
        before = self._get()
        text = NEW if before is None else before
        while True:
            edited = _edited(text)
            if edited == before:
                complain(COMMAND.name, f"{COMMAND.name}: no changes were made", plain=True)
                return 0
            status, bad = self._submit(edited, "The failed line(s) is commented out with #BAD:\n")
            if not status:
                return 0
            if not _confirmed():
                return 0
            text = mark(edited, bad, BAD)

    def _submit(self, text: str, more: str = "") -> tuple[int, list[tuple[int, int]]]:
        """Submits a text; returns the status, and the lines with errors."""
        entries, mistakes = read(text, self.owner)
        if mistakes:
            return 1, _shown(mistakes, more)
        request = UpdateCrontabRequest(user=self.user, text=text, entries=entries)
        reply: UpdateCrontabReply = self._call("UpdateCrontab", request)
        if reply.code:
            words = TEXT[Code(reply.code)] if reply.code in list(Code) else "not known here"
            first, last = reply.failed_lines.first, reply.failed_lines.last
            sys.stdout.write(
                f"There was an issue with the job submission on lines {first}-{last}\n"
                f"The error code return was: {words}\n"
                f"The error message was: {reply.text}\n{more}"
            )
            return 1, [(first, last)]
        for line in reply.user_messages:
            complain(COMMAND.name, f"{COMMAND.name}: {line}", plain=True)
        for warning in reply.warnings:
            warn(COMMAND.name, warning)
        if self.verbose:
            ids = ", ".join(map(str, reply.job_ids)) or "none"
            complain(COMMAND.name, f"{COMMAND.name}: jobs: {ids}", plain=True)
        return 0, []


def _shown(mistakes: list[CrontabError], more: str) -> list[tuple[int, int]]:
    for mistake in mistakes:
        complain(COMMAND.name, mistake.shown())
    sys.stdout.write(f"There are errors in your crontab.\n{more}")
    return [(mistake.line, mistake.line) for mistake in mistakes]


def _read(path: str) -> bytes:
    try:
        return read_all(sys.stdin.buffer, CRONTAB_BYTES_MAX) if path == "-" else read_bounded(path, CRONTAB_BYTES_MAX)
    except OSError as error:
        if error.errno == errno.EFBIG:
            where = "standard input" if path == "-" else path
            raise CommandError(f"{where}: {TOO_LARGE}") from error
        raise _fatal(f"failed to open {path}: {error.strerror}") from error


def _confirmed() -> bool:
    while True:
        sys.stdout.write(RETRY)
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer or answer[:1].lower() in ("y", "n"):
            return answer[:1].lower() == "y"


def _edited(text: str) -> str:
    """The text after editing."""
    import shlex
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.NamedTemporaryFile("w+b", prefix="scrontab-") as file:  # readable by the user only
        file.write(text.encode())
        file.flush()
        try:
            status = subprocess.run([*shlex.split(editor), file.name], check=False).returncode
        except (OSError, ValueError) as error:
            raise _fatal(f"the editor {editor} cannot be started: {error}") from error
        if status:
            raise _fatal("editor returned non-zero exit code")
        try:
            return decode(read_bounded(file.name, CRONTAB_BYTES_MAX))  # editors may replace the file
        except OSError as error:
            raise _fatal(f"what the editor has written cannot be read: {error.strerror}") from error


if __name__ == "__main__":
    main()
