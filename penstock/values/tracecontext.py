"""Trace contexts of W3C: the `traceparent` of a caller, the ids of a job's trace and of its spans. Pure.

    00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    version, trace id, span id, flags (1: sampled)

A job whose submission names a context is part of that trace, below that span, and is sampled if its caller is; all other
jobs have traces of their own. The ids of a job's spans follow from its cluster, number and time of submission in both
cases, so two jobs of one trace have different ones.

Texts are anyone's: what is not exactly of this form counts as none.
"""

import hashlib
import re
from functools import lru_cache
from typing import Final, NamedTuple

_FORM: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
_NO_VERSION: Final = "ff"
#: A later version may add parts behind these, with a hyphen between.
_CHARS_MAX: Final = 512
#: A job has some ten spans: its place is computed once. Some 500 bytes each.
TRACES_KEPT_MAX: Final = 1_024


class JobTrace(NamedTuple):
    """A job's place in its trace. `seed`: what the ids of its spans follow from; `parent`: the caller's span, b"" = none."""

    trace_id: bytes
    seed: bytes
    parent: bytes = b""

    def span_id(self, key: str) -> bytes:
        """Returns the id of a span of the job, so that a child can be sent before its parent."""
        return hashlib.sha256(self.seed + key.encode()).digest()[:8]

    def traceparent(self, key: str) -> str:
        """Returns the context below a span of the job."""
        return f"00-{self.trace_id.hex()}-{self.span_id(key).hex()}-01"


def checked_traceparent(text: str) -> str:
    """Returns the context as this version writes it, "" for what is none."""
    found = _FORM.match(text) if len(text) <= _CHARS_MAX else None
    if found is None or found["version"] == _NO_VERSION:
        return ""
    rest = text[found.end() :]
    if rest and (found["version"] == "00" or not rest.startswith("-")):
        return ""
    if not int(found["trace"], 16) or not int(found["span"], 16):
        return ""
    return f"00-{found['trace']}-{found['span']}-{int(found['flags'], 16) & 1:02x}"


def job_trace(cluster: str, job_id: int, submit_at_us: int, one_in: int, parent: str = "") -> JobTrace | None:
    """Returns the place of a job, the same in every process and after each restart; None of one that is not sampled.

    `one_in`: so many jobs without a caller are one sampled job, by their seeds; 0 = none is sampled.
    """
    return _job_trace(cluster, job_id, submit_at_us, one_in, parent) if one_in or parent else None


@lru_cache(maxsize=TRACES_KEPT_MAX)
def _job_trace(cluster: str, job_id: int, submit_at_us: int, one_in: int, parent: str) -> JobTrace | None:
    seed = hashlib.sha256(f"{cluster}\0{job_id}\0{submit_at_us}".encode()).digest()[:16]
    if parent := checked_traceparent(parent):
        _, trace_id, span_id, flags = parent.split("-")
        return JobTrace(bytes.fromhex(trace_id), seed, bytes.fromhex(span_id)) if flags == "01" else None
    return None if not one_in or int.from_bytes(seed[-8:], "big") % one_in else JobTrace(seed, seed)
