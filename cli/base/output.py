"""Output for people: the one place that sanitises it, when it is written.

Texts of users appear in other users' output: names of jobs, comments, reasons, paths. Not all of them were validated
when they were stored (rows of earlier releases, other clusters' files), so control characters and those that reorder a
line are escaped (`\\x1b`, `\\u202e`) in every write. A write cannot distinguish our line breaks from those in a user's
text: code that writes rows passes them one by one (`rows_text`), and a line break inside a row is escaped, too. So no
text can imitate a row, or `JobId=7`.

Programs that read a listing put separators into its format (`squeue -o`, `sacct --delimiter`). Those that have no
effect on a terminal (SEPARATORS) are not escaped if the caller wrote them on the command line or in a format variable.

Documents (--json, --yaml) have no such characters: their writers use the escapes of JSON and YAML (cli.base.writers).
Texts requested verbatim (a script, a crontab) are written by `verbatim`: files and pipes get every byte, a terminal
gets them sanitised, since they may be another user's. `raw` never sanitises. Output of steps is not sanitised: srun
copies bytes.
"""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.values.text import clean_block, clean_line_breaks

#: Control characters that programs use and terminals ignore: SOH to EOT, ACK, FS to US.
SEPARATORS: Final = "\x01\x02\x03\x04\x06\x1c\x1d\x1e\x1f"


class Cleaned(io.TextIOWrapper):
    """A sanitised text stream for people. `kept`: separators in the caller's formats."""

    kept = ""

    def write(self, text: str, /) -> int:
        """Writes it, sanitised."""
        return super().write(clean_block(text, self.kept))


def cleaned(stream: io.TextIOWrapper) -> Cleaned:
    """Wraps the same file with sanitising."""
    by_line, through = stream.line_buffering, stream.write_through
    return Cleaned(
        stream.detach(), encoding="utf-8", errors="surrogateescape", line_buffering=by_line, write_through=through
    )


def separators(words: Iterable[str], environment: Mapping[str, str]) -> str:
    """The separators that the caller has written."""
    said = "".join((*words, *(environment[name] for name in environment if "_FORMAT" in name)))
    return "" if said.isprintable() else "".join(char for char in SEPARATORS if char in said)


def raw(text: str) -> None:
    """Writes a text unchanged."""
    stream = sys.stdout
    stream.flush()
    stream.buffer.write(text.encode("utf-8", "surrogateescape"))
    stream.buffer.flush()


def verbatim(text: str) -> None:
    """Writes a text that a user has stored: unchanged, unless a terminal would interpret it."""
    if sys.stdout.isatty():
        text = clean_block(text)
    raw(text)


def rows_text(rows: Sequence[str], between: str = "\n") -> str:
    """Rows as one text, with no break but those between them."""
    text = between.join(rows)
    breaks = between.count("\n") * (len(rows) - 1) if rows else 0
    return text if text.count("\n") == breaks else between.join(map(clean_line_breaks, rows))
