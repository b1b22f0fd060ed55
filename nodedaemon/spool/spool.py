"""The spool folder: the files that outlive the daemon.

    SPOOL/lock                 held by the running noded (POSIX lock: it ends with the process and is not inherited)
    SPOOL/journal              fence records, tombstones, reports, the highest epoch, the base of the node's time
    SPOOL/reserve              space that is reserved for the ends of running steps (space.py)
    SPOOL/contact              when the controller was last in contact (base/lease.py)
    SPOOL/steps/J.A.S/record   the claim (the process that decided the start) and the end (steprecord.py)
    SPOOL/steps/J.A.S/slurm_script   the user's own copy, 0500
    SPOOL/steps/spare-*        folders for the next steps: an empty record, and perhaps the last step's script

As root, folders belong to root and are 0711: a user must reach their script by its path, and can list or change
nothing. Without root they are 0700. All records are 0600. Everything is opened relative to a folder's descriptor, and
no link is followed.

stepd writes the step folders (stepd/stepd.py); this module contains noded's operations on them.
"""

import errno
import fcntl
import os
import shutil
import stat

from nodedaemon.base.folders import SCRIPT_NAME, folder_mode, open_folder
from nodedaemon.base.nodeclock import NodeClock
from nodedaemon.core.messages import AnyRecord, BootSeen, SpoolCreated, StepEnded
from nodedaemon.core.steps import StepKey
from nodedaemon.spool import steprecord
from nodedaemon.spool.contact import ControllerContact
from nodedaemon.spool.journal import Journal
from nodedaemon.spool.space import Space
from nodedaemon.spool.steprecord import NEVER, Claim, measured_of, metrics_of, read_record, task_ends, write_claim
from penstock.crash import crash_point
from penstock.storagefaults import naming

#: Emptied step folders kept for the next steps, under names that are no keys.
SPARE_PREFIX = "spare-"
SPARE_FOLDERS_MAX = 256
#: Scripts up to this size stay in them.
SPARE_SCRIPT_BYTES_MAX = 64 * 1024


class SpoolError(Exception):
    """The spool cannot be used; the message says what to do."""


def prepare_folder(path: str) -> None:
    """Makes the spool folder and `steps`; refuses one that other users could change."""
    steps = os.path.join(path, "steps")
    try:
        os.makedirs(steps, exist_ok=True)
        for folder in (path, steps):
            status = os.stat(folder)
            if status.st_uid != os.geteuid():
                raise SpoolError(
                    f"{folder} belongs to uid {status.st_uid}, not to uid {os.geteuid()} that runs this daemon"
                )
            os.chmod(folder, folder_mode())
    except OSError as error:
        raise SpoolError(
            f"cannot prepare the spool folder {path}: {error.strerror}; choose another with --spool"
        ) from error


class Spool:
    """noded's side of the spool. Opening it takes the lock and reads the journal."""

    def __init__(self, path: str, boot_id: str, new_spool_id: str) -> None:
        prepare_folder(path)
        self.path = path
        self.boot_id = boot_id
        self.dir_fd = open_folder(path)
        self.steps_fd = open_folder("steps", self.dir_fd)
        self._lock_fd = self._lock(path)
        self._spare = [name for name in os.listdir(self.steps_fd) if name.startswith(SPARE_PREFIX)]
        self._recorded: set[StepKey] = set()  # steps with a folder whose end has been read
        self.contact = ControllerContact(self.dir_fd)
        self.space = Space(self.dir_fd)
        self.journal = Journal(self.dir_fd)
        self.records: list[AnyRecord] = self.journal.read()
        self.is_new = not self.records
        boots = [record for record in self.records if isinstance(record, BootSeen)]
        self.was_rebooted = bool(boots) and boots[-1].boot_id != boot_id
        self.clock = NodeClock(boots[-1].clock_base_us if boots and not self.was_rebooted else 0)
        new: list[AnyRecord] = [SpoolCreated(new_spool_id)] if self.is_new else []
        seen = BootSeen(boot_id, self.clock.base_us)
        if not boots or boots[-1] != seen:
            new.append(seen)
            with naming("journal"):
                self.journal.append(new)
                self.journal.sync()
            self.records += new

    def _lock(self, path: str) -> int:
        fd = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=self.dir_fd)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise SpoolError(
                f"another node daemon runs with the spool folder {path}; each needs its own --spool"
            ) from error
        return fd

    def read(self, key: StepKey) -> tuple[Claim | None, StepEnded | None]:
        """Returns the claim of the step's start, and its end; None for either that is unknown (yet)."""
        claim, end = read_record(self.steps_fd, f"{key}/{steprecord.NAME}", str(key))
        if end is None:
            return claim, None
        self._recorded.add(key)
        crash_point("exit.read")
        user_cpu_us, system_cpu_us, max_rss_kb, disk_read_bytes, disk_write_bytes = end.usage
        return claim, StepEnded(
            key,
            end.start_at_us,
            end.end_at_us,
            end.exit_code,
            end.exit_signal,
            end.failure,
            end.out_of_memory,
            user_cpu_us,
            system_cpu_us,
            max_rss_kb,
            disk_read_bytes,
            disk_write_bytes,
            tasks=task_ends(end),
            metrics=metrics_of(end),
            measured=measured_of(end),
        )

    def make_folder(self, key: StepKey) -> None:
        """Makes the folder of a step that is about to be ordered. stepd only opens it: without the folder it starts
        nothing."""
        if self._spare:
            os.rename(self._spare.pop(), str(key), src_dir_fd=self.steps_fd, dst_dir_fd=self.steps_fd)
        else:
            os.mkdir(str(key), folder_mode(), dir_fd=self.steps_fd)

    def claim_never(self, key: StepKey, now_us: int) -> bool:
        """Makes sure that the step never starts. False = its stepd was faster."""
        try:
            folder_fd = open_folder(str(key), self.steps_fd)
        except OSError as error:
            _check_damaged(error)
            return True  # never ordered, and a late stepd would find no folder
        try:
            fd = write_claim(folder_fd, Claim(NEVER, os.getpid(), 0, 0, now_us, b"", str(key)))
        except OSError as error:
            _check_damaged(error)
            return True  # nor can a stepd place one
        finally:
            os.close(folder_fd)
        if fd >= 0:
            os.close(fd)
            return True
        claim = self.read(key)[0]
        return claim is None or claim.by == NEVER  # None: damaged, so no process's

    def sweep(self, keys: list[StepKey]) -> None:
        """Removes step folders, or empties them for reuse by other steps. Blocks: called in a worker thread.

        Only a folder whose step was ended by its own stepd is reused: no other process can still be using it.
        Making and removing files is the most expensive thing here on some file systems. A small script stays in its folder,
        for a step of the same user with the same script (the next task of an array); any other step's stepd removes it.
        """
        for key in keys:
            name = str(key)
            has_end = key in self._recorded
            self._recorded.discard(key)
            try:
                folder_fd = open_folder(name, self.steps_fd)
            except FileNotFoundError:
                continue
            except OSError as error:
                _check_damaged(error)
                os.unlink(name, dir_fd=self.steps_fd)  # not one of our folders
                continue
            try:
                has_end = has_end or read_record(folder_fd, steprecord.NAME, name)[1] is not None
                is_spare = has_end and len(self._spare) < SPARE_FOLDERS_MAX and _blank(folder_fd)
                if not is_spare:
                    _empty(folder_fd)
            finally:
                os.close(folder_fd)
            if is_spare:
                self._set_aside(name)
            else:
                self._remove(name)
            crash_point("forget.swept")

    def _remove(self, name: str) -> None:
        """Removes an emptied folder, with files that were created in it at that moment."""
        try:
            os.rmdir(name, dir_fd=self.steps_fd)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            folder_fd = open_folder(name, self.steps_fd)
            try:
                _empty(folder_fd)
            finally:
                os.close(folder_fd)
            os.rmdir(name, dir_fd=self.steps_fd)

    def _set_aside(self, name: str) -> None:
        spare = SPARE_PREFIX + name
        os.rename(name, spare, src_dir_fd=self.steps_fd, dst_dir_fd=self.steps_fd)
        self._spare.append(spare)

    def folders(self) -> list[str]:
        """Names of the step folders that exist."""
        return [name for name in os.listdir(self.steps_fd) if not name.startswith(SPARE_PREFIX)]

    def close(self) -> None:
        """Releases the spool."""
        self.journal.close()
        self.contact.close()
        self.space.close()
        for fd in (self._lock_fd, self.steps_fd, self.dir_fd):
            os.close(fd)


def _check_damaged(error: OSError) -> None:
    """Raises an error again that does not mean damaged files."""
    if error.errno not in steprecord.DAMAGED:
        raise error


def _blank(folder_fd: int) -> bool:
    """Truncates the record, and removes a script that is large; returns False when there are other files."""
    if set(os.listdir(folder_fd)) != {SCRIPT_NAME, steprecord.NAME}:
        return False
    script = os.stat(SCRIPT_NAME, dir_fd=folder_fd, follow_symlinks=False)
    if not stat.S_ISREG(script.st_mode):  # without root the folder is the user's own
        return False
    if script.st_size > SPARE_SCRIPT_BYTES_MAX:
        os.unlink(SCRIPT_NAME, dir_fd=folder_fd)
    os.close(os.open(steprecord.NAME, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd))
    return True


def _empty(folder_fd: int) -> None:
    for name in os.listdir(folder_fd):
        try:
            os.unlink(name, dir_fd=folder_fd)
        except IsADirectoryError:  # without root the folder is the user's own, and may contain anything
            shutil.rmtree(name, dir_fd=folder_fd)
