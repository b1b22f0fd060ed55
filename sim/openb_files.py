"""Reads the lists of Alibaba's GPU cluster trace (openb, 2023): nodes and pods, CSV with a header line, gzip or not.

Columns of nodes: sn, cpu_milli, memory_mib, gpu, model. Of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and where
the list has them gpu_spec (allowed models, joined by |), creation_time, deletion_time (seconds since the trace began).
Columns are found by name; others are skipped. An invalid line ends the reading with file and line: half a list would
give plausible but wrong figures. docs/simulator.md has the sources of the lists.
"""

import csv
import gzip
import io
from dataclasses import dataclass

from _fastsched.fragment_contract import GPU_MILLI, GPUS_MAX
from penstock.boundedfile import read_bounded
from penstock.values.errors import BadValue

#: A list of a million pods; a larger file is probably not a list.
LIST_BYTES_MAX = 256 * 1024**2
_GZIP = b"\x1f\x8b"


class OpenbError(BadValue):
    """A list that cannot be read: file, line (0 = the whole file), what is wrong."""

    def __init__(self, path: str, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}" if line else f"{path}: {text}")


@dataclass(frozen=True, slots=True)
class OpenbNode:
    """One row of a list of nodes."""

    name: str
    cpu_milli: int
    mem_mb: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class OpenbPod:
    """One row of a list of pods."""

    name: str
    cpu_milli: int
    mem_mb: int
    gpus: int
    share_milli: int  # of each GPU; 0 without GPUs
    gpu_spec: str  # as written; empty: any model
    creation_s: int | None
    deletion_s: int | None

    @property
    def gpu_milli(self) -> int:
        """GPU milli in all."""
        return self.gpus * self.share_milli


def read_openb_nodes(path: str) -> list[OpenbNode]:
    """The nodes, in the order of the file. Raises OpenbError, OSError."""
    found: list[OpenbNode] = []
    for line, row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        gpus = _number(path, line, row, "gpu")
        if gpus > GPUS_MAX:
            raise OpenbError(path, line, f"{gpus} GPUs; a node can have {GPUS_MAX}")
        numbers = (_number(path, line, row, "cpu_milli"), _number(path, line, row, "memory_mib"))
        found.append(OpenbNode(row["sn"], *numbers, gpus, row["model"]))
    if not found:
        raise OpenbError(path, 0, "no node in it")
    return found


def read_openb_pods(path: str) -> list[OpenbPod]:
    """The pods, in the order of the file. Raises OpenbError, OSError."""
    found: list[OpenbPod] = []
    for line, row in _rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        gpus, share = _number(path, line, row, "num_gpu"), _number(path, line, row, "gpu_milli")
        if gpus and not 1 <= share <= GPU_MILLI:
            raise OpenbError(path, line, f"gpu_milli is {share}; of each GPU a pod gets 1 to {GPU_MILLI}")
        if gpus > GPUS_MAX:
            raise OpenbError(path, line, f"{gpus} GPUs; a node can have {GPUS_MAX}")
        found.append(
            OpenbPod(
                name=row["name"],
                cpu_milli=_number(path, line, row, "cpu_milli"),
                mem_mb=_number(path, line, row, "memory_mib"),
                gpus=gpus,
                share_milli=share if gpus else 0,
                gpu_spec=row.get("gpu_spec") or "",
                creation_s=_number(path, line, row, "creation_time") if row.get("creation_time") else None,
                deletion_s=_number(path, line, row, "deletion_time") if row.get("deletion_time") else None,
            )
        )
    if not found:
        raise OpenbError(path, 0, "no pod in it")
    return found


def _rows(path: str, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Line numbers and rows by column name."""
    data = read_bounded(path, LIST_BYTES_MAX)
    try:
        if data.startswith(_GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                data = stream.read(LIST_BYTES_MAX + 1)
        text = data.decode("utf-8")
    except (EOFError, gzip.BadGzipFile) as error:
        raise OpenbError(path, 0, f"broken gzip file ({error}); fetch it again") from None
    except UnicodeDecodeError:
        raise OpenbError(path, 0, "not a text file") from None
    if len(data) > LIST_BYTES_MAX:
        raise OpenbError(path, 0, f"more than {LIST_BYTES_MAX} bytes")
    reader = csv.DictReader(io.StringIO(text))
    if missing := [name for name in needed if name not in (reader.fieldnames or ())]:
        raise OpenbError(path, 1, f"no column {missing[0]}; the first line must name the columns {', '.join(needed)}")
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise OpenbError(path, reader.line_num, str(error)) from None
    for line, row in rows:
        if any(row[name] is None for name in needed):
            raise OpenbError(path, line, "fewer fields than columns")
    return rows


def _number(path: str, line: int, row: dict[str, str], name: str) -> int:
    word = row[name].strip()
    if not word.isascii() or not word.isdigit() or len(word) > 15:
        raise OpenbError(path, line, f"{name} is {word!r}, which is not a number")
    return int(word)
