"""A Python function as a job: named by module and name, with arguments and result as JSON.

Nothing is pickled: the job imports the module (its folder is the job's working directory, or on PYTHONPATH) and calls the
function, and the result is a file that one rename puts into place. What is no JSON is refused before the job is submitted,
and a lambda or an inner function has no name that another process could import.

    python -m sdk.functioncall MODULE:NAME RESULT-FILE ARGUMENTS       what the job runs
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.values.refusals import Code
from sdk.errors import InvalidRequest, RequestRefused

#: Under the job's working directory.
FOLDER: Final = ".penstock-results"
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
    except (TypeError, ValueError) as error:
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
        with open(path, "rb") as file:
            answer = json.loads(file.read(RESULT_BYTES_MAX))
    except FileNotFoundError as error:
        raise FunctionFailed(Code.INTERNAL, f"the job ended without a result: {path} is not there") from error
    except ValueError as error:
        raise FunctionFailed(Code.INTERNAL, f"{path} is no result of a function: {error}") from error
    if "error" in answer:
        raise FunctionFailed(Code.INTERNAL, answer["error"], answer.get("traceback", ""))
    return answer["result"]


def main(argv: list[str]) -> int:
    """Calls the function and writes what came of it; the status is 1 if it raised."""
    name, path, arguments = argv
    answer, status = _outcome(name, arguments)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    partial = f"{path}.{os.getpid()}"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(answer, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    return status


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
