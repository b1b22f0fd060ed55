"""Changes the records of ended jobs that the controller no longer keeps in memory.

A job's request is one row (`job_request`) that the tasks of an array share: a change for one of them makes a row of its
own, with a number below 0, which the controller never assigns. Rolled-up usage keeps the wckey under which it was
counted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from accounting.schema import ENDED_FROM, JOB, JOB_REQUEST

_Key = tuple[int, int]
#: Fields of the request.
_ASKED: Final = frozenset(("comment", "system_comment", "extra", "wckey"))


def amend(connection: Connection, keys: Sequence[_Key], values: Mapping[str, object]) -> int:
    """Updates these attempts with these values, by the names of columns and of fields of the request; only those that
    exist and have ended. Returns their number.
    """
    columns = {name: value for name, value in values.items() if name in JOB.c}
    asked = {name: value for name, value in values.items() if name in _ASKED}
    amended = 0
    for job_id, attempt in keys:
        this = (JOB.c.job_id == job_id, JOB.c.attempt == attempt)
        row = connection.execute(select(JOB.c.request_id, JOB.c.state).where(*this)).one_or_none()
        if row is None or row.state < ENDED_FROM:
            continue
        more = {"request_id": _another(connection, row.request_id, job_id, asked)} if asked else {}
        connection.execute(update(JOB).where(*this).values(columns | more))
        amended += 1
    return amended


def _another(connection: Connection, request_id: int, job_id: int, asked: Mapping[str, object]) -> int:
    old = connection.execute(select(JOB_REQUEST).where(JOB_REQUEST.c.request_id == request_id)).mappings().one()
    request = {**msgspec.json.decode(bytes(old["request"])), **asked}
    least = connection.execute(select(func.min(JOB_REQUEST.c.request_id))).scalar() or 0
    values = {
        "request_id": min(0, least) - 1, "job_id": job_id, "submit_key": "", "submitted_at_us": old["submitted_at_us"],
        "request": msgspec.json.encode(request),
    }  # fmt: skip
    connection.execute(insert(JOB_REQUEST).values(values))
    number: int = values["request_id"]
    return number
