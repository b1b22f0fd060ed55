"""The files of a site's submit filters, and who may have written them: read by the controller, checked by `penstock config
check`. They are run by neither."""

import os
import stat
from importlib.util import find_spec
from typing import Final

from penstock.config.shown import find_uid
from penstock.values.config import Config

FILE_BYTES_MAX: Final = 1024 * 1024
#: Lua's file, in the folder of slurm.conf.
LUA_FILE: Final = "job_submit.lua"


class FilterFileError(Exception):
    """A filter cannot be loaded. The text names the file, and what to do."""


def filter_files(config: Config, folder: str) -> list[tuple[str, str]]:
    """Returns the language and path of each filter. Raises FilterFileError without what its language needs."""
    found = [("python", config.submit_filter)] if config.submit_filter else []
    if "lua" in config.job_submit_plugins:
        if find_spec("lupa") is None:
            raise FilterFileError("JobSubmitPlugins=lua needs lupa: pip install 'penstock[lua]'")
        found.append(("lua", os.path.join(folder, LUA_FILE)))
    return found


def read_filter(path: str, config: Config) -> str:
    """Returns the text of a filter that only root, SlurmUser and the process's own user can have written. Raises
    FilterFileError."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FilterFileError(f"{path}: not a regular file")
            if found.st_mode & 0o022:
                raise FilterFileError(f"{path}: others than its owner can write to it: chmod go-w {path}")
            if found.st_uid not in {0, os.geteuid(), find_uid(config.slurm_user)}:
                raise FilterFileError(
                    f"{path}: it belongs to uid {found.st_uid}, and not to root or {config.slurm_user}"
                )
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise FilterFileError(f"{path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise FilterFileError(f"{path}: more than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FilterFileError(f"{path}:{line}: not UTF-8") from None


def _open_at_once(path: str, flags: int) -> int:
    """Opens it without waiting for a writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def filter_warnings(config: Config, folder: str) -> tuple[str, ...]:
    """Returns why the controller could not load the filters, as far as their files tell."""
    found: list[str] = []
    try:
        for _, path in filter_files(config, folder):
            try:
                read_filter(path, config)
            except FilterFileError as error:
                found.append(f"the submit filter cannot be loaded: {error}")
    except FilterFileError as error:
        found.append(f"the submit filter cannot be loaded: {error}")
    return tuple(found)
