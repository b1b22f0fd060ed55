"""Requests in: messages to the core's events, with the limits that protect the controller itself.

Sizes and bytes are checked here, before anything is hashed or kept; meanings are the core's. The client checks the
same limits first, so that a user learns of them without a round trip; these are the ones that count.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from ctld.core.events import WantedJob
from ctld.core.model import SpecRow
from ctld.rpc.refusals import BadRequest
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.values.config import Config
from penstock.values.jobid import HET_OFFSET_MAX
from penstock.values.refusals import TEXT, Code

#: Any text of a request without a limit of its own: a hostlist or dependency of thousands of entries fits.
TEXT_BYTES_MAX: Final = 64 * 1024
#: An array's task list: more ranges than a person or program writes; parsing is linear in it.
ARRAY_BYTES_MAX: Final = 64 * 1024
#: Entries of a repeated field: partitions, kinds of GRES, resource limits.
ENTRIES_MAX: Final = 1024
#: The kernel's limit of one argument or variable, with its closing NUL (MAX_ARG_STRLEN).
WORD_BYTES_MAX: Final = 128 * 1024
#: Jobs' arguments together: a quarter of the kernel's default for argv and environment.
ARGV_BYTES_MAX: Final = 512 * 1024
#: Characters of an update's value.
VALUE_MAX: Final = 64 * 1024

_KEY: Final = re.compile(r"[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}")

#: How a field that is not taken as it is becomes the event's.
_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "partitions": tuple,
    "mail_types": tuple,
    "gres_per_node": lambda entries: tuple((g.name, g.type, g.count) for g in entries),
    "gres_per_job": lambda entries: tuple((g.name, g.type, g.count) for g in entries),
    "gres_per_task": lambda entries: tuple((g.name, g.type, g.count) for g in entries),
    "gres_per_socket": lambda entries: tuple((g.name, g.type, g.count) for g in entries),
    "rlimits": lambda limits: tuple([(name, limits[name]) for name in sorted(limits)]),  # items() takes twice as long
}
_LIMITS: Final = {"array": ARRAY_BYTES_MAX}


def wanted_job(message: JobRequest) -> WantedJob:
    """A submission's fields. Raises BadRequest."""
    fields: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        name = descriptor.name
        read = _READ.get(name)
        if read is not None:
            if len(value) > ENTRIES_MAX:
                raise BadRequest(Code.INVALID_VALUE, f"{name}: {len(value)} entries, the limit is {ENTRIES_MAX}")
            value = read(value)
        elif type(value) is str and len(value) > _LIMITS.get(name, TEXT_BYTES_MAX):
            code = Code.INVALID_ARRAY if name == "array" else Code.INVALID_VALUE
            limit = _LIMITS.get(name, TEXT_BYTES_MAX)
            raise BadRequest(code, f"{TEXT[code]}: {name} has {len(value)} characters, the limit is {limit}")
        fields[name] = value
    return WantedJob(**fields)


def components(messages: Any) -> tuple[WantedJob, ...]:
    """The components of a heterogeneous job after the first. Raises BadRequest."""
    if len(messages) > HET_OFFSET_MAX:
        raise BadRequest(Code.INVALID_VALUE, f"{len(messages) + 1} components, the limit is {HET_OFFSET_MAX + 1}")
    return tuple(wanted_job(message) for message in messages)


def spec_row(message: JobSpec, config: Config, has_script: bool = True) -> SpecRow:
    """The script with its arguments and environment, and the hash of all. Raises BadRequest.

    `has_script` False: of a step, or of a job without a script.
    """
    script, argv, environment = message.script, tuple(message.argv), tuple(message.environment)
    if not script and has_script:
        raise BadRequest(Code.JOB_SCRIPT_MISSING, TEXT[Code.JOB_SCRIPT_MISSING])
    if len(script) > config.max_script_bytes:
        raise _too_large(Code.SCRIPT_TOO_LARGE, len(script), config.max_script_bytes)
    size = sum(map(len, environment))
    if size > config.max_environment_bytes:
        raise _too_large(Code.ENVIRONMENT_TOO_LARGE, size, config.max_environment_bytes)
    size = sum(map(len, argv))
    if size > ARGV_BYTES_MAX:
        raise BadRequest(Code.INVALID_VALUE, f"the script's arguments have {size} bytes, the limit is {ARGV_BYTES_MAX}")
    _check_nul("the script", script)
    _check_words("argument", argv)
    _check_words("environment variable", environment)
    return SpecRow(spec_hash(script, argv, environment), script, argv, environment)


def spec_hash(script: bytes, argv: tuple[bytes, ...], environment: tuple[bytes, ...]) -> bytes:
    """SHA-256 over all parts, each behind its length, and each list behind its number: no two specs run together."""
    parts = [b"%d:" % len(script), script, b"%d;" % len(argv)]
    for word in argv:
        parts += (b"%d:" % len(word), word)
    parts.append(b"%d;" % len(environment))
    for word in environment:
        parts += (b"%d:" % len(word), word)
    return hashlib.sha256(b"".join(parts)).digest()


def submit_key(text: str) -> tuple[str, int]:
    """A submission's key, a UUID version 7 in hex, and the time in it. Raises BadRequest."""
    key = text.replace("-", "").lower() if len(text) <= 36 else ""
    if not _KEY.fullmatch(key):
        raise BadRequest(Code.INVALID_VALUE, "request_key must be a UUID of version 7 in hex")
    return key, int(key[:12], 16) * 1000


def changes_of(changes: Any) -> dict[str, str]:
    """The keys and values of an update. Raises BadRequest."""
    if len(changes) > ENTRIES_MAX:
        raise BadRequest(Code.INVALID_VALUE, f"{len(changes)} changes, the limit is {ENTRIES_MAX}")
    found = dict(changes)
    for name, value in found.items():
        if len(value) > VALUE_MAX:
            raise BadRequest(Code.INVALID_VALUE, f"{name[:64]} has {len(value)} characters, the limit is {VALUE_MAX}")
    return found


def _too_large(code: Code, size: int, limit: int) -> BadRequest:
    return BadRequest(code, f"{TEXT[code]}: {size} bytes, the limit is {limit}")


def _check_nul(what: str, data: bytes) -> None:
    if b"\0" in data:
        raise BadRequest(Code.INVALID_VALUE, f"{what} has a NUL byte at position {data.index(0)}")


def _check_words(what: str, words: Iterable[bytes]) -> None:
    for position, word in enumerate(words, 1):
        if b"\0" in word:
            _check_nul(f"{what} {position}", word)
        if len(word) >= WORD_BYTES_MAX:
            raise BadRequest(
                Code.INVALID_VALUE, f"{what} {position} has {len(word)} bytes, the limit is {WORD_BYTES_MAX - 1}"
            )
