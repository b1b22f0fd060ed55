"""The window of a list of jobs that a query asks for: some rows of it, in an order."""

from typing import Final

from penstock.v1.controller_pb2 import JobWindow
from penstock.values.jobcolumns import ORDERS, WINDOW_ROWS_MAX
from penstock.values.jobid import JOB_ID_MAX
from rest.calling import RestCall, bad_query
from rest.contract.parse import CONVERSION, UNKNOWN_WORD

#: Any of these parameters asks for one.
WINDOW: Final = ("order", "search", "first", "count")
_NUMBERS: Final = {"first": JOB_ID_MAX, "count": WINDOW_ROWS_MAX}
#: As the controller allows.
_WORDS_MAX: Final = 16
_WORD_BYTES_MAX: Final = 64


def window_of(call: RestCall) -> JobWindow | None:
    """The window; None: all jobs are asked for. Raises RestError."""
    query = call.query
    if not any(name in query for name in WINDOW):
        return None
    order = query.get("order", "")
    if order.removeprefix("-") not in ("", *ORDERS):
        raise bad_query("order", order, UNKNOWN_WORD)
    wanted = query.get("search", "").split()
    if len(wanted) > _WORDS_MAX or any(len(word.encode("utf-8", "replace")) > _WORD_BYTES_MAX for word in wanted):
        raise bad_query("search", query["search"], CONVERSION)
    for name, largest in _NUMBERS.items():
        if call.number(name) > largest:
            raise bad_query(name, query[name], CONVERSION)
    count = call.number("count") if "count" in query else WINDOW_ROWS_MAX
    return JobWindow(order=order, words=wanted, first=call.number("first"), count=count)
