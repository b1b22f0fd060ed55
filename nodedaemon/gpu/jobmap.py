"""Writes the jobs of each GPU to files for metrics exporters (dcgm-exporter's HPC job mapping).

    DIR/3      the ids of the jobs that have GPU 3, one a line
    DIR/3.7    of MIG instance 7 on it

A file exists as long as a job has the GPU, and is replaced as a whole. The folder is the administrator's, and must
exist; only files with such names are touched in it. Files of an earlier daemon are removed first. A folder that cannot
be written is logged once: missing metrics do not keep jobs from running.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Mapping

from nodedaemon.core.gpumessages import Device

log = logging.getLogger("penstock.noded")

_NAME = re.compile(r"\d{1,4}(\.\d{1,4})?")
_NEW = ".penstock-new"


def file_name(device: Device) -> str:
    """The exporter's name for the device."""
    return f"{device.index}.{device.gpu_instance}" if device.gpu_instance >= 0 else str(device.index)


class JobMap:
    """The files of one node. Without a folder nothing happens."""

    def __init__(self) -> None:
        self._folder = ""
        self._written: dict[str, str] = {}  # by file name: its content
        self._has_failed = False

    def use(self, folder: str) -> None:
        """Sets the folder; "" = none."""
        if folder == self._folder:
            return
        self._clean()
        self._folder = folder
        self._has_failed = False
        self._clean()

    def show(self, jobs: Mapping[str, Iterable[int]]) -> None:
        """Writes the jobs that have the GPU, by file name; a file that is not listed is removed."""
        if not self._folder:
            return
        wanted = {name: "".join(f"{job}\n" for job in ids) for name, ids in jobs.items()}
        wanted = {name: text for name, text in wanted.items() if text}
        try:
            for name in self._written.keys() - wanted.keys():
                self._remove(name)
            for name, text in wanted.items():
                if self._written.get(name) != text:
                    self._write(name, text)
        except OSError as error:
            self._complain(error)

    def _write(self, name: str, text: str) -> None:
        new = os.path.join(self._folder, f"{name}{_NEW}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(fd, "w", encoding="ascii") as file:
            file.write(text)
        os.rename(new, os.path.join(self._folder, name))
        self._written[name] = text

    def _remove(self, name: str) -> None:
        self._written.pop(name, None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, name))

    def _clean(self) -> None:
        """Removes all files with such names."""
        self._written = {}
        if not self._folder:
            return
        try:
            for name in os.listdir(self._folder):
                if _NAME.fullmatch(name.removesuffix(_NEW)):
                    self._remove(name)
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            log.error("PenstockGpuJobMapDir=%s: %s; exporters have no job data", self._folder, error.strerror)
