"""Answers: the frame (meta, errors, warnings), and the error numbers and HTTP statuses of Slurm.

Errors that a handler may raise are RestError and the errors of the client; `error_of` turns the latter into the former.
Where the real daemon answers 5xx to a caller's mistake, this one answers 4xx with the same error number (docs/rest.md).
"""

import math
import re
from functools import lru_cache
from typing import Final

from cli.base.document import Json
from cli.base.errnumbers import WORDS
from cli.base.refusal import split_message
from penstock import SLURM_VERSION
from penstock.calls import pause_asked_s
from penstock.errors import NotProven, PenstockError, Unreachable
from penstock.values.refusals import TEXT, Code
from rest.contract.facts import Operation
from rest.contract.parse import BodyProblem

#: A header of answers that no cache may keep: who asks is in a header that caches do not know.
NEVER_KEPT: Final = {"Cache-Control": "no-store"}
#: Slurm's number and text for a proof that is not accepted: of the controller, and of accounting.
AUTHENTICATION: Final = {
    "slurm": (1007, "Protocol authentication error"),
    "slurmdb": (7000, "Unable to connect to database"),
}
#: Slurm's number of a request whose query or path is wrong.
BAD_QUERY: Final = 9000
#: Numbers of Slurm for refusals whose text is not Slurm's own.
_NUMBERS: Final = {
    Code.SCRIPT_TOO_LARGE: 2012,
    Code.ENVIRONMENT_TOO_LARGE: 2012,
    Code.JOB_SCRIPT_MISSING: 9000,
    Code.INVALID_TIME_VALUE: 2054,
    Code.REQUESTED_NODES_NOT_IN_PARTITION: 2004,
    Code.MAX_JOB_COUNT: 2007,
    Code.JOB_SUSPENDED: 2077,
    Code.JOB_NOT_RUNNING: 2085,
}
#: Tags of Slurm's paths.
_SLURMS: Final = ("slurm", "slurmdb", "util")
#: Statuses of refusals other than 422, on Slurm's paths: slurmrestd has 422 also where a right is lacking.
_STATUSES: Final[dict[int, int]] = {Code.INVALID_JOB_ID: 404, Code.INTERNAL: 500}
#: Those on all other paths.
_OWN_STATUSES: Final[dict[int, int]] = _STATUSES | {Code.ACCESS_DENIED: 403}
#: Paths of places.
_PLACE: Final = re.compile(r"/slurm/[^/]+/(new/)?(node|partition|reservation)s?\b")
#: Texts of the numbers that `scontrol errnumstr` does not know.
_TEXTS: Final = {
    9000: "Query parameters are not valid",
    9202: "Data: conversion failed",
    9207: "Data: unknown flag",
    9209: "Data: expected an object",
    9200: "Data: a required field is missing",
}


class RestError(Exception):
    """A request that is not carried out. `number`: Slurm's error number. `is_plain`: the answer is text, not JSON."""

    def __init__(
        self, status: int, number: int, text: str, detail: str = "", source: str = "", *, retry_after_s: int = 0,
        is_plain: bool = False, problems: tuple[BodyProblem, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        self.is_plain = is_plain
        self.text = text
        self.errors = [error_object(*one) for one in problems] or [error_object(number, text, source, detail)]


class NotModified(Exception):
    """Nothing has changed since `update_time`, or the caller has it: status 304 without a body. `tag`: the entity tag."""

    def __init__(self, tag: str = "") -> None:
        super().__init__(tag)
        self.tag = tag


def error_object(number: int, text: str, source: str = "", detail: str = "") -> Json:
    """One item of `errors`. Slurm's words for the number are `error`; the rest is the description."""
    words = _TEXTS.get(number) or WORDS.get(number, "")
    description = "\n".join(part for part in (text if text != words else "", detail) if part)
    return {"description": description or words, "error_number": number, "error": words or text, "source": source}


def warning_object(text: str, source: str = "") -> Json:
    """One item of `warnings`."""
    return {"description": text, "source": source}


def error_of(error: PenstockError, tag: str, operation: Operation | None = None) -> RestError:
    """The answer to a refusal of the controller, or to its silence. `tag`: one of Slurm's, or of Penstock's own paths."""
    if isinstance(error, NotProven):
        number, text = AUTHENTICATION["slurmdb" if tag == "slurmdb" else "slurm"]
        return RestError(401, number, text)
    if isinstance(error, Unreachable):
        return RestError(503, error.code, error.text, error.detail, retry_after_s=1)
    if error.code == Code.RATE_LIMITED:
        return RestError(429, 0, TEXT[Code.RATE_LIMITED], retry_after_s=max(1, math.ceil(pause_asked_s(error.text))))
    text, detail = split_message(error)
    if error.code in (Code.BUSY, Code.STORAGE_AWAY, Code.STORAGE_FULL, Code.STORAGE_WAITS):
        return RestError(503, error.code, text, detail, retry_after_s=1)
    statuses = _STATUSES if tag in _SLURMS else _OWN_STATUSES
    changes_place = operation is not None and operation.method != "get" and _PLACE.match(operation.path) is not None
    number = (number_of_update if changes_place else slurm_number)(error.code)
    return RestError(statuses.get(error.code, 422), number, text, detail)


def number_of_update(code: int) -> int:
    """Slurm's number for a refused change of a job, a node, a partition or a reservation: of whoever lacks the right, the user id
    is invalid."""
    return Code.INVALID_USER if code == Code.ACCESS_DENIED else slurm_number(code)


@lru_cache(256)
def slurm_number(code: int) -> int:
    """Slurm's number for a refusal: by its text, where the controller's number is its own."""
    if code in _NUMBERS:
        return _NUMBERS[code]  # type: ignore[index]  # membership was tested with the same int
    text = TEXT.get(code, "") if code in TEXT else ""  # type: ignore[call-overload]
    return next((number for number, words in WORDS.items() if words == text), int(code))


def meta_of(tag: str, version: str, cluster: str, source: str) -> Json:
    """The frame's `meta`. `source`: the caller's address."""
    plugin = "slurmdbd" if tag == "slurmdb" else "slurmctld"
    major, minor, micro = SLURM_VERSION.split(".")
    return {
        "plugin": {
            "type": f"openapi/{plugin}",
            "name": f"Slurm OpenAPI {plugin}",
            "data_parser": f"data_parser/{version}",
            "accounting_storage": "accounting_storage/slurmdbd",
        },
        "client": {"source": source, "user": "", "group": ""},
        "command": [],
        "slurm": {
            "version": {"major": major, "minor": minor, "micro": micro},
            "release": SLURM_VERSION,
            "cluster": cluster,
        },
    }
