"""Runs a site's submit filters: a process of its own, started by submitfilter.py.

    python -I filterworker.py FD UID GID GID,GID... [lua]

As root it becomes that user first (-1: it stays who it is), and no text of a user's or of the site's is read before. The
first message has the filters' texts, which the controller has read and whose owner it has checked; each later one is a
call, with a job as a JSON object. The answer has the fields that the filters have changed, lines for the user, and a
refusal, or the filter's own error with its line. Everything that a filter does wrong is an answer; what it does to this
process (it ends, it hangs, it takes all memory) is the end of this process, and of nothing else.
"""

import copy
import importlib
import json
import os
import resource
import socket
import sys
import types
from typing import Final

if __name__ == "__main__":  # -I omits the project; it comes last, so that it cannot shadow the standard library
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from ctld.runtime.filterbase import MODIFY, SUBMIT, LoadedFilter
from ctld.runtime.lookuphelper import LENGTH, receive
from penstock import submitfilter
from penstock.oom import allow_oom_kill
from penstock.sitefilters.base import FilterFailed, FilterRefusal, take_notes
from penstock.sitefilters.pythonscript import PythonScript
from penstock.submitfilter import SubmittedJob, Submitter

#: Address space of this process: a filter that fills it fails, and not the machine.
MEMORY_BYTES_MAX: Final = 4 * 1024**3


class PythonFilter:
    """A filter in Python."""

    def __init__(self, path: str, text: str) -> None:
        self._script = PythonScript(path, text)
        self._functions = self._script.functions((SUBMIT, MODIFY))
        self.has = tuple(self._functions)
        if not self.has:
            raise FilterFailed(f"{path}: it has neither {SUBMIT} nor {MODIFY}")

    def submit(self, job: dict[str, object], call: dict[str, object]) -> None:
        """Calls job_submit(job, submitter)."""
        if SUBMIT not in self.has:
            return
        record = SubmittedJob(**job)  # type: ignore[arg-type]  # the controller sends the fields of a SubmittedJob
        self._script.call(self._functions[SUBMIT], record, _submitter(call))
        job.update({name: getattr(record, name) for name in SubmittedJob.__slots__})

    def modify(self, changes: dict[str, str], call: dict[str, object]) -> None:
        """Calls job_modify(job, changes, submitter)."""
        if MODIFY in self.has:
            known = types.SimpleNamespace(**_record(call, "record"))
            self._script.call(self._functions[MODIFY], known, changes, _submitter(call))


def _record(call: dict[str, object], name: str) -> dict[str, object]:
    found = call[name]
    return found if isinstance(found, dict) else {}


def _submitter(call: dict[str, object]) -> Submitter:
    fields = _record(call, "submitter")
    groups = fields.get("groups")
    return Submitter(**{**fields, "groups": tuple(groups) if isinstance(groups, list) else ()})  # type: ignore[arg-type]


def load(scripts: list[list[str]]) -> list[LoadedFilter]:
    """Loads the filters: (language, path, text). Raises FilterFailed."""
    found: list[LoadedFilter] = []
    for language, path, text in scripts:
        if language == "lua":
            from ctld.runtime.luafilter import LuaFilter

            found.append(LuaFilter(path, text))
        else:
            found.append(PythonFilter(path, text))
    return found


def answer(filters: list[LoadedFilter], call: dict[str, object]) -> dict[str, object]:
    """Runs the filters, one after the other, on what the one before has left."""
    if not filters:  # this process has taken the place of one that ended after it was loaded
        return {"failed": "the filters are not loaded"}
    submitfilter.take_messages()
    job = _record(call, "job")
    before = copy.deepcopy(job)
    result: dict[str, object] = {}
    try:
        for one in filters:
            if call["function"] == SUBMIT:
                one.submit(job, call)
            else:
                one.modify(job, call)  # type: ignore[arg-type]  # changes are texts
    except FilterRefusal as error:
        result["refused"] = [error.code, str(error)]
    except FilterFailed as error:
        result["failed"] = str(error)
    result["changed"] = {name: value for name, value in job.items() if value != before.get(name, ...)}
    result["removed"] = [name for name in before if name not in job]
    result["messages"] = submitfilter.take_messages()
    result["notes"] = take_notes()
    return result


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Becomes the user of the filters, for good. Raises OSError."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _send(wire: socket.socket, question: dict[str, object], value: dict[str, object]) -> None:
    """Sends the answer to a question, with its number."""
    number = question["number"]
    try:
        text = json.dumps({**value, "number": number})
    except (TypeError, ValueError) as error:  # the filter has set a field to what is no text, number or list
        text = json.dumps({"failed": f"a field has a value of a wrong type: {error}", "number": number})
    wire.sendall(LENGTH.pack(len(text)) + text.encode())


def main(fd: int, uid: int, gid: int, groups: list[int], has_lua: bool) -> None:
    """Answers until the other side closes."""
    allow_oom_kill()  # first: after the switch the file is not writable
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    if has_lua:
        importlib.import_module("ctld.runtime.luafilter")  # before the switch: its library may be readable by root only
    if uid >= 0:
        become(uid, gid, groups)
    filters: list[LoadedFilter] = []
    with socket.socket(fileno=fd) as wire:
        while head := receive(wire, LENGTH.size):
            question = json.loads(receive(wire, *LENGTH.unpack(head)))
            if "scripts" not in question:
                _send(wire, question, answer(filters, question))
                continue
            try:
                filters = load(question["scripts"])
                _send(wire, question, {"has": sorted({name for one in filters for name in one.has})})
            except FilterFailed as error:
                _send(wire, question, {"failed": str(error)})


if __name__ == "__main__":
    gids = [int(gid) for gid in sys.argv[4].split(",") if gid]
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), gids, "lua" in sys.argv[5:])
