"""A Python function as a job: named by module and name, with arguments and result as JSON.

Nothing is pickled: the job imports the module (its folder is the job's working directory, or on PYTHONPATH) and calls the
function, and the result is a file that one rename puts into place. What is no JSON is refused before the job is submitted,
and a lambda or an inner function has no name that another process could import.

The working directory may be one that others write to. So a result is written only into a folder of the user's that nobody else
can change, and read only from a file of the user's.

    python -m sdk.functioncall MODULE:NAME RESULT-FILE ARGUMENTS       what the job runs
"""

import errno
import importlib
import json
import os
import stat
import sys
import traceback
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.values.refusals import Code
from sdk.errors import InvalidRequest, RequestRefused

#: Under the job's working directory, which users may share.
FOLDER: Final = f".penstock-results-{os.geteuid()}"
#: Above it, a file is the way to pass data: arguments are words of a command line.
ARGUMENTS_BYTES_MAX: Final = 100_000
RESULT_BYTES_MAX: Final = 64 * 1024 * 1024
_PATH_PARTS: Final = "."


class FunctionFailed(RequestRefused):
    """The function raised an exception in its job; `detail` has its traceback."""


class FunctionCall(NamedTuple):
    """A function's name, and its arguments as JSON."""

    function: str
    arguments: str


def call_of(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> FunctionCall:
    """The call, checked: the name leads to the function, and the arguments come back from JSON as they were. Raises
    InvalidRequest.
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        path = getattr(sys.modules["__main__"], "__file__", "") or ""
        module = spec.name if spec else os.path.splitext(os.path.basename(path))[0]
    if not module or "<" in name:
        raise _invalid(f"{name or function!r} has no name that a job could import: define it at the top of a module")
    try:
        text = json.dumps([list(args), kwargs], allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(f"the arguments of {name} are not JSON: {error}") from error
    if json.loads(text) != [list(args), kwargs]:
        raise _invalid(
            f"the arguments of {name} would not come back from JSON as they are (tuples, keys that are numbers)"
        )
    if len(text) > ARGUMENTS_BYTES_MAX:
        raise _invalid(f"the arguments of {name} have {len(text)} bytes, more than {ARGUMENTS_BYTES_MAX}: pass a file")
    return FunctionCall(f"{module}:{name}", text)


def words_of(call: FunctionCall, result: str) -> list[str]:
    """The command line of the job."""
    return [sys.executable, "-m", "sdk.functioncall", call.function, result, call.arguments]


def read_result(path: str) -> object:
    """What the function returned. Raises FunctionFailed, also when the job ended before it wrote a result."""
    try:
        answer = json.loads(_read_own(path))
    except FileNotFoundError as error:
        raise FunctionFailed(Code.INTERNAL, f"the job ended without a result: {path} is not there") from error
    except OSError as error:
        raise FunctionFailed(Code.INTERNAL, f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FunctionFailed(Code.INTERNAL, f"{path} is no result of a function: {error}") from error
    if not isinstance(answer, dict) or not answer.keys() & {"error", "result"}:
        raise FunctionFailed(Code.INTERNAL, f"{path} is no result of a function")
    if "error" in answer:
        raise FunctionFailed(Code.INTERNAL, str(answer["error"]), str(answer.get("traceback", "")))
    return answer["result"]


def _read_own(path: str) -> bytes:
    """Raises OSError, also for what is no file of this user's."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's, or no file")
        return opened.read(RESULT_BYTES_MAX)


def main(argv: list[str]) -> int:
    """Calls the function and writes what came of it; the status is 1 if it raised."""
    name, path, arguments = argv
    answer, status = _outcome(name, arguments)
    _put(path, json.dumps(answer).encode())
    return status


def _put(path: str, data: bytes) -> None:
    """Raises OSError, also for a folder that others can change: they could have prepared a link to a file of the user's."""
    folder, name = os.path.split(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(where)
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "it is another user's, or others can write to it", folder)
        partial = f"{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, 0o600, dir_fd=where), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, name, src_dir_fd=where, dst_dir_fd=where)
    finally:
        os.close(where)


def _outcome(name: str, arguments: str) -> tuple[dict[str, object], int]:
    module, _, path = name.partition(":")
    args, kwargs = json.loads(arguments)
    sys.path.insert(0, os.getcwd())
    try:
        found: object = importlib.import_module(module)
        for part in path.split(_PATH_PARTS):
            found = getattr(found, part)
        if not callable(found):
            raise TypeError(f"{name} is no function")
        result = found(*args, **kwargs)
        json.dumps(result, allow_nan=False)
    except Exception as error:  # noqa: BLE001 (whatever the user's function raises is the answer)
        text = traceback.format_exc()
        sys.stderr.write(text)
        return {"error": f"{type(error).__name__}: {error}", "traceback": text}, 1
    return {"result": result}, 0


def _invalid(text: str) -> InvalidRequest:
    return InvalidRequest(Code.CONFIG_INVALID, text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
