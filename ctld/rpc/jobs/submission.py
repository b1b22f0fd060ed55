"""Decodes submissions and updates to the core's events, with the limits that protect the controller itself.

The size of the whole and its bytes are checked here, before anything is hashed or stored; that of each field by the gate
(gate/bounds.py), validity by the core. The client checks the same limits first, to save a round trip; these are the
authoritative ones.
"""

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

# Any: a field's value has the type of its descriptor, which the type checker does not see
from typing import Any, Final

from google.protobuf.message import Message

from ctld.core.records.events import JobSubmission
from ctld.core.records.job import SpecRow
from ctld.runtime.errors import BadRequest
from penstock.v1.common_pb2 import GresCount, JobRequest, JobSpec
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.fields import Fields
from penstock.values.refusals import TEXT, Code
from penstock.values.requestkey import read_request_key
from penstock.values.rlimits import check_rlimits

#: Maximum size of a job's request without its script, arguments and environment. It is in memory for as long as the job
#: is, and part of every launch.
REQUEST_BYTES_MAX: Final = 256 * 1024
#: The kernel's limit of one argument or variable, with its closing NUL (MAX_ARG_STRLEN).
WORD_BYTES_MAX: Final = 128 * 1024
#: Jobs' arguments together: a quarter of the kernel's default for argv and environment.
ARGV_BYTES_MAX: Final = 512 * 1024
#: How many submissions' contents are kept, and their largest size.
KEPT_MAX: Final = 64
KEPT_BYTES_MAX: Final = 16 * 1024


def _gres(entries: Iterable[GresCount]) -> tuple[tuple[str, str, int], ...]:
    return tuple((g.name, g.type, g.count) for g in entries)


#: How a field of several values is converted to the submission's, by the message of one of them.
_ENTRIES: Final[dict[object, Callable[[Any], Any]]] = {
    None: tuple,
    GresCount.DESCRIPTOR: _gres,
    JobRequest.RlimitsEntry.DESCRIPTOR: check_rlimits,
}
#: A message's fields: the name as in the record (protobuf creates a new string each time, which is slow to look up),
#: and the converter of the value; None = unchanged.
_FIELDS: Final = {
    field.name: (sys.intern(field.name), _ENTRIES[field.message_type] if field.is_repeated else None)
    for field in JobRequest.DESCRIPTOR.fields
}
#: The submission, of fields by their names.
_submission_of: Final[Callable[..., JobSubmission]] = JobSubmission


def decode_submission(message: JobRequest) -> JobSubmission:
    """Decodes a submission's fields. Raises BadRequest."""
    check_size("the job's request without its script", message, REQUEST_BYTES_MAX)
    fields: Fields = {}
    for descriptor, value in message.ListFields():
        name, read = _FIELDS[descriptor.name]
        if read is not None:
            try:
                value = read(value)
            except BadValue as error:
                raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from None
        fields[name] = value
    return _submission_of(**fields)


def check_size(what: str, message: Message, limit: int) -> None:
    """Checks the size of a whole message. Raises BadRequest."""
    size = message.ByteSize()
    if size > limit:
        raise BadRequest(
            Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {what} has {size} bytes, the limit is {limit}"
        )


def components(messages: Sequence[JobRequest]) -> tuple[JobSubmission, ...]:
    """Decodes the components of a heterogeneous job after the first. Raises BadRequest."""
    return tuple(decode_submission(message) for message in messages)


def spec_row(message: JobSpec, config: Config, has_script: bool = True) -> SpecRow:
    """Returns the script with its arguments and environment, and the hash of all. Raises BadRequest.

    `has_script` False: for a step, or a job without a script.
    """
    script = message.script
    argv = tuple(message.argv)
    environment = tuple(message.environment)
    if not script and has_script:
        raise BadRequest(Code.JOB_SCRIPT_MISSING, TEXT[Code.JOB_SCRIPT_MISSING])
    if len(script) > config.max_script_bytes:
        raise _too_large(Code.SCRIPT_TOO_LARGE, len(script), config.max_script_bytes)
    total = size = sum(map(len, environment))
    if size > config.max_environment_bytes:
        raise _too_large(Code.ENVIRONMENT_TOO_LARGE, size, config.max_environment_bytes)
    size = sum(map(len, argv))
    total += size + len(script) + len(argv) + len(environment)
    if size > ARGV_BYTES_MAX:
        raise BadRequest(Code.INVALID_VALUE, f"the script's arguments have {size} bytes, the limit is {ARGV_BYTES_MAX}")
    _check_nul("the script", script)
    _check_words("argument", argv)
    _check_words("environment variable", environment)
    return SpecRow(spec_hash(script, argv, environment), script, argv, environment, total)


class SpecReader:
    """Reads scripts with their arguments and environments, and caches the last ones: a loop sends the same repeatedly.

    Cached contents were checked under the same configuration, and are found by all bytes of the message.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, bool], SpecRow] = OrderedDict()
        self._config: Config | None = None

    def read(self, message: JobSpec, config: Config, has_script: bool = True) -> SpecRow:
        """Returns what `spec_row` does. Raises BadRequest."""
        if message.ByteSize() > KEPT_BYTES_MAX:
            return spec_row(message, config, has_script)
        if config is not self._config:
            self._config = config
            self._kept.clear()
        key = message.SerializeToString(), has_script
        row = self._kept.get(key)
        if row is None:
            row = spec_row(message, config, has_script)
            if len(self._kept) >= KEPT_MAX:
                self._kept.popitem(last=False)
            self._kept[key] = row
        return row


def spec_hash(script: bytes, argv: tuple[bytes, ...], environment: tuple[bytes, ...]) -> bytes:
    """Returns the SHA-256 of all parts, each after its length, and each list after its number of entries, so that
    different specs have different input."""
    parts = [b"%d:" % len(script), script, b"%d;" % len(argv)]
    for word in argv:
        parts += (b"%d:" % len(word), word)
    parts.append(b"%d;" % len(environment))
    for word in environment:
        parts += (b"%d:" % len(word), word)
    return hashlib.sha256(b"".join(parts)).digest()


def submit_key(text: str) -> tuple[str, int]:
    """Returns a submission's key, a UUID version 7 in hex, and the time in it. Raises BadRequest."""
    try:
        key = read_request_key(text)
    except BadValue as error:
        raise BadRequest(Code.INVALID_VALUE, f"request_key {error}") from error
    return key, int(key[:12], 16) * 1000


def _too_large(code: Code, size: int, limit: int) -> BadRequest:
    return BadRequest(code, f"{TEXT[code]}: {size} bytes, the limit is {limit}")


def _check_nul(what: str, data: bytes) -> None:
    if b"\0" in data:
        raise BadRequest(Code.INVALID_VALUE, f"{what} has a NUL byte at position {data.index(0)}")


def _check_words(what: str, words: tuple[bytes, ...]) -> None:
    if not words or (b"\0" not in b"".join(words) and len(max(words, key=len)) < WORD_BYTES_MAX):
        return
    for position, word in enumerate(words, 1):
        if b"\0" in word:
            _check_nul(f"{what} {position}", word)
        if len(word) >= WORD_BYTES_MAX:
            raise BadRequest(
                Code.INVALID_VALUE, f"{what} {position} has {len(word)} bytes, the limit is {WORD_BYTES_MAX - 1}"
            )
