"""Tests wait for events, with the one deadline of `tests/support/patience.py`.

A sleep outside a loop that asks again hopes that something happens meanwhile, and a shorter deadline fails on a machine that
stands still. Both are found on the syntax tree; a time-out under test is an exception with its reason.
"""

import ast
from collections.abc import Iterator

import pytest
import tidytree as tree
from patience import LIMIT_S

SLEEPS = {"time.sleep", "asyncio.sleep"}
#: The call -> the position of its deadline, where it has one without a keyword.
DEADLINES = {"asyncio.timeout": 0, "asyncio.wait_for": 1, "socket.create_connection": 1}
#: file -> why what it waits for is no event, or its deadline is shorter.
ALLOWED = {
    "tests/clients/cases/t_submitit.py": "a job that sleeps",
    "tests/clients/cases/t_submitit_requeue.py": "a job that sleeps",
    "tests/node/test_streams.py": "a socket that nothing may come from",
    "tests/security/test_08_become.py": "none of the programs may begin",
}


def number(node: ast.expr | None) -> float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def calls(node: ast.AST, in_loop: bool = False) -> Iterator[tuple[ast.Call, bool]]:
    """Each call below the node, and whether a loop of its own function repeats it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        in_loop = False
    in_loop = in_loop or isinstance(node, (ast.While, ast.For, ast.AsyncFor))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, in_loop
        yield from calls(child, in_loop)


def complaint(call: ast.Call, in_loop: bool) -> str | None:
    name = ast.unparse(call.func)
    if name in SLEEPS and not in_loop and number(call.args[0]) not in (0, None):
        return f"{name} outside a loop that asks again"
    at = 0 if name.endswith(".settimeout") else DEADLINES.get(name, len(call.args))
    given = [k.value for k in call.keywords if k.arg == "timeout"] + call.args[at : at + 1]
    short = [limit for limit in map(number, given) if limit is not None and 0 < limit < LIMIT_S]
    return f"{name} with {short[0]} s: LIMIT_S of patience.py" if short else None


def complaints(module: ast.Module) -> list[tuple[int, str]]:
    return [(call.lineno, said) for call, in_loop in calls(module) if (said := complaint(call, in_loop))]


def test_nothing_sleeps_and_hopes() -> None:
    found = {
        tree.name_of(path): [f"{tree.name_of(path)}:{line}: {said}" for line, said in complaints(tree.tree_of(path))]
        for path in tree.sources("tests")
    }
    assert [line for name, lines in found.items() if name not in ALLOWED for line in lines] == []
    assert [name for name in ALLOWED if not found[name]] == [], "ALLOWED names what is not there any more"


@pytest.mark.parametrize(
    "source",
    [
        "time.sleep(1)",
        "for x in y:\n    def f(): time.sleep(0.2)",
        "async def f(): await asyncio.sleep(0.05)",
        "asyncio.timeout(10)",
        "asyncio.wait_for(story(), 5)",
        "subprocess.run(words, timeout=60)",
        "sock.settimeout(0.5)",
        "socket.create_connection(address, 30)",
    ],
)
def test_hopes_are_seen(source: str) -> None:
    assert len(complaints(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "while not done():\n    time.sleep(POLL_S)",
        "while not done():\n    time.sleep(0.01)",
        "async def f(): await asyncio.sleep(0)",
        "asyncio.sleep(LIMIT_S)",
        "asyncio.timeout(LIMIT_S)",
        "subprocess.run(words, timeout=240)",
        "sock.settimeout(None)",
        "queue.get(timeout=0)",
    ],
)
def test_waiting_is_left_alone(source: str) -> None:
    assert complaints(ast.parse(source)) == []
