"""The site's templates of job scripts: files of one folder, which an administrator names (`--web-templates`).

    #!/bin/bash
    # Title: PyTorch on one node
    # Description: eight GPUs, one process a GPU
    #SBATCH --gpus=8

The folder is read when the daemon starts, and again when a file in it has changed, at most every LOOK_S, by a thread. A
file that is no template is named in the log and left out. Nothing of a file is run here.
"""

import asyncio
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from penstock.boundedfile import read_all

log = logging.getLogger("restd")

#: Templates, entries of the folder that are examined, and bytes of one file.
TEMPLATES_MAX: Final = 100
ENTRIES_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 64 * 1024
TITLE_MAX: Final = 80
DESCRIPTION_MAX: Final = 400
#: The folder is examined again after this time, when a user asks.
LOOK_S: Final = 5.0
#: The lines that name it are among the first ones.
HEAD_LINES: Final = 40
_LINE: Final = re.compile(r"#\s*(title|description)\s*:\s*(.*\S)\s*$", re.IGNORECASE)

#: Name, time of change in ns, bytes, inode.
_Print = tuple[str, int, int, int]


class SiteTemplate(NamedTuple):
    """A script that a job may begin with. `name`: its file's."""

    name: str
    title: str
    description: str
    script: str


class SiteTemplates:
    """The templates of a folder. Belongs to one event loop once it is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: tuple[SiteTemplate, ...] = ()
        self._seen: tuple[_Print, ...] | None = None
        self._looked_s = float("-inf")
        self._lock = asyncio.Lock()

    def read(self) -> None:
        """Reads what has changed. Raises OSError: the folder cannot be read."""
        seen = tuple(self._prints())
        if seen == self._seen:
            return
        before, self._seen = self._seen, seen
        found = [one for name, *_ in seen if (one := self._one(name)) is not None]
        found.sort(key=lambda one: (one.title.lower(), one.name))
        for one in found[TEMPLATES_MAX:]:
            log.warning("template %s is left out: %s", one.name, f"there are more than {TEMPLATES_MAX}")
        self._found = tuple(found[:TEMPLATES_MAX])
        log.info("%d job templates %s in %s", len(self._found), "are" if before is None else "are now", self._folder)

    async def all(self) -> tuple[SiteTemplate, ...]:
        """The templates, by title. A folder that cannot be read any more leaves those that there were."""
        async with self._lock:
            if time.monotonic() - self._looked_s >= LOOK_S:
                try:
                    await asyncio.to_thread(self.read)
                except OSError as error:
                    log.warning("the templates in %s cannot be read: %s", self._folder, error.strerror or error)
                self._looked_s = time.monotonic()
        return self._found

    def _prints(self) -> Iterator[_Print]:
        with os.scandir(self._folder) as entries:
            names = sorted(one.name for _, one in zip(range(ENTRIES_MAX), entries, strict=False))
        for name in names:
            if name.startswith(".") or name.endswith("~"):
                continue
            try:
                found = os.stat(self._folder / name)
            except OSError:
                continue  # it has gone, or is a link to nothing
            if stat.S_ISREG(found.st_mode):
                yield name, found.st_mtime_ns, found.st_size, found.st_ino

    def _one(self, name: str) -> SiteTemplate | None:
        try:
            return template_of(name, _bytes_of(self._folder / name))
        except OSError as error:
            why = error.strerror or str(error)
        except ValueError as error:
            why = str(error)
        log.warning("template %s is left out: %s", repr(name), why)
        return None


def _bytes_of(path: Path) -> bytes:
    """The content. Raises OSError; a file that became a pipe is not waited for."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        return read_all(file, FILE_BYTES_MAX)


def template_of(name: str, content: bytes) -> SiteTemplate:
    """The template that a file has. Raises ValueError."""
    if not name.isprintable():
        raise ValueError("its name has characters that cannot be shown")
    try:
        script = content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: byte {error.start}") from None
    if "\0" in script:
        raise ValueError("it has a NUL character")
    if not script.startswith("#!"):
        raise ValueError("its first line is no #! line")
    words: dict[str, str] = {}
    for line in script.split("\n", HEAD_LINES)[:HEAD_LINES]:
        if found := _LINE.match(line):
            words.setdefault(found[1].lower(), found[2])
    for word, most in (("title", TITLE_MAX), ("description", DESCRIPTION_MAX)):
        if len(words.get(word, "")) > most:
            raise ValueError(f"its {word} has more than {most} characters")
    if "title" not in words:
        raise ValueError(f"none of its first {HEAD_LINES} lines is a `# Title:` line")
    return SiteTemplate(name, words["title"], words.get("description", ""), script.replace("\r\n", "\n"))
