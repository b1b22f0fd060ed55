"""Python functions as jobs, without a cluster: names, arguments, results."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sdk.errors import InvalidRequest
from sdk.functioncall import FunctionFailed, call_of, main, read_result


def add(first: int, second: int = 0) -> int:
    """A function with a name."""
    return first + second


class Model:
    """Its method has a name, too."""

    @staticmethod
    def loss(rate: float) -> dict[str, float]:
        return {"loss": rate * 2}


def fails(text: str) -> None:
    raise KeyError(text)


def returns_an_object() -> object:
    return object()


def test_a_call_is_a_name_and_json() -> None:
    call = call_of(add, (1,), {"second": 2})
    assert call.function.endswith("test_sdk_functions:add")
    assert json.loads(call.arguments) == [[1], {"second": 2}]


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (lambda: 0, (), "define it at the top of a module"),
        (add, (object(),), "are not JSON"),
        (add, ((1, 2),), "would not come back from JSON"),
        (add, ({1: 2},), "would not come back from JSON"),
        (add, (float("nan"),), "are not JSON"),
        (add, ("x" * 200_000,), "pass a file"),
    ],
)
def test_what_cannot_be_passed_is_refused(
    function: Callable[..., object], arguments: tuple[object, ...], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        call_of(function, arguments, {})


def ran(tmp_path: Path, function: str, *arguments: object) -> tuple[int, str]:
    path = tmp_path / "results" / "one.json"
    status = main([f"tests.sdk.test_sdk_functions:{function}", str(path), json.dumps([arguments, {}])])
    return status, str(path)


def test_results_come_back(tmp_path: Path) -> None:
    status, path = ran(tmp_path, "add", 2, 3)
    assert (status, read_result(path)) == (0, 5)
    status, path = ran(tmp_path, "Model.loss", 0.5)
    assert (status, read_result(path)) == (0, {"loss": 1.0})
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["one.json"], "no partial file is left"


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("fails", ("why",), "KeyError: 'why'"),
        ("returns_an_object", (), "TypeError: Object of type object is not JSON serializable"),
        ("nothing", (), "AttributeError: module 'tests.sdk.test_sdk_functions' has no attribute 'nothing'"),
        ("add", (1, 2, 3), "TypeError: add() takes"),
    ],
)
def test_what_a_function_raises_is_the_answer(
    tmp_path: Path, function: str, arguments: tuple[object, ...], said: str
) -> None:
    status, path = ran(tmp_path, function, *arguments)
    assert status == 1
    with pytest.raises(FunctionFailed) as caught:
        read_result(path)
    assert caught.value.text.startswith(said)
    assert "Traceback" in caught.value.detail


def test_a_job_that_wrote_nothing(tmp_path: Path) -> None:
    with pytest.raises(FunctionFailed, match="ended without a result"):
        read_result(str(tmp_path / "none.json"))
