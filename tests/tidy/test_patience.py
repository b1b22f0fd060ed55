"""Tests wait for events, with the deadlines of `tests/support/patience.py`.

A sleep outside a loop that asks again hopes that something happens meanwhile, and a deadline of its own fails on a machine that
is slower or stands still. Both are found on the syntax tree, also where a constant of the module holds the number; a time-out
under test is an exception with its reason.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise

import patience
import pytest
import tidytree as tree

SLEEPS = {"time.sleep", "asyncio.sleep"}
#: Words of a call that hold a deadline: of any call, and of those that wait, whose names are below.
ANYWHERE, WHERE_IT_WAITS = {"timeout"}, {"limit_s"}
#: The call -> the position of its deadline; methods by their last name.
FUNCTIONS = {"asyncio.timeout": 0, "asyncio.wait_for": 1, "socket.create_connection": 1}
METHODS = {
    "settimeout": 0,
    "join": 0,
    "result": 0,
    "wait_death": 1,
    "wait_ends": None,
    "wait_nodes": None,
    "wait_state": None,
    "wait_text": 2,
    "wait_until": 1,
    "word": 0,
    "run": None,
}
#: A process's or an event's, and a cluster's: condition, what, deadline.
WAIT = "wait"
CLOCKS = {"time.monotonic()", "loop.time()"}
#: Their tests wait for nothing: a number there is a time of their world.
DETERMINISTIC = ("tests/core/", "tests/values/", "tests/config/")
#: file -> why what it waits for is no event, or its deadline is its own.
ALLOWED = {
    "tests/clients/cases/t_submitit.py": "a job that sleeps",
    "tests/clients/cases/t_submitit_requeue.py": "a job that sleeps",
    "tests/e2e/test_scenarios_partition.py": "a lease that must not have expired",
    "tests/gpu/load.py": "a load on a card, which ends by itself",
    "tests/node/test_cgroups.py": "a task that joins its group, and no thread",
    "tests/node/test_gpu_policy.py": "seconds of a world that is played",
    "tests/node/test_gpu_probe.py": "a word that must not come",
    "tests/node/test_streams.py": "a socket that nothing may come from",
    "tests/security/test_08_become.py": "none of the programs may begin",
    "tests/security/test_12_unread_replies.py": "the turn of a uid, and no time",
    "tests/support/differential/grants/slurm.py": "a real Slurm, by hand",
}


def number(node: ast.expr | None, constants: dict[str, ast.expr]) -> float | None:
    """The number that an expression is, itself or as a constant of the module; of "never" (0) none."""
    if isinstance(node, ast.Name):
        node = constants.get(node.id)
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def constants_of(module: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in module.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    found |= {
                        name.id: value
                        for name, value in zip(target.elts, node.value.elts, strict=False)
                        if isinstance(name, ast.Name)
                    }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return found


def nodes(node: ast.AST, in_loop: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Each node below this one, and whether a loop of its own function repeats it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        in_loop = False
    in_loop = in_loop or isinstance(node, (ast.While, ast.For, ast.AsyncFor))
    for child in ast.iter_child_nodes(node):
        yield child, in_loop
        yield from nodes(child, in_loop)


def deadlines(call: ast.Call, in_loop: bool) -> list[ast.expr]:
    """The words of a call that are its deadline."""
    name = ast.unparse(call.func)
    method = name.rpartition(".")[2] if isinstance(call.func, ast.Attribute) else ""
    at: int | None = FUNCTIONS.get(name, METHODS.get(method))
    if method == WAIT:  # in a loop that asks again a short one is an interval
        at = 2 if len(call.args) > 2 else None if in_loop else 0
    keywords = ANYWHERE | (WHERE_IT_WAITS if method in METHODS or method == WAIT else set())
    placed = [] if at is None else call.args[at : at + 1]
    return [*placed, *(keyword.value for keyword in call.keywords if keyword.arg in keywords)]


def complaint(node: ast.AST, in_loop: bool, constants: dict[str, ast.expr]) -> str | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and ast.unparse(node.left) in CLOCKS:
        limit_s = number(node.right, constants)
        return f"a deadline of {limit_s} s: those are in patience.py" if limit_s else None
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func)
    if name in SLEEPS and not in_loop and node.args and number(node.args[0], {}):
        return f"{name} outside a loop that asks again"
    given = [limit_s for word in deadlines(node, in_loop) if (limit_s := number(word, constants))]
    return f"{name} with {given[0]} s: deadlines are in patience.py" if given else None


def complaints(module: ast.Module) -> list[tuple[int, str]]:
    constants = constants_of(module)
    return [
        (node.lineno, said)
        for node, in_loop in nodes(module)
        if isinstance(node, ast.expr) and (said := complaint(node, in_loop, constants))
    ]


def test_nothing_sleeps_and_hopes_and_no_deadline_is_of_its_own() -> None:
    found = {
        name: [f"{name}:{line}: {said}" for line, said in complaints(tree.tree_of(path))]
        for path in tree.sources("tests")
        if not (name := tree.name_of(path)).startswith(DETERMINISTIC)
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
        "subprocess.run(words, timeout=6000)",
        "sock.settimeout(0.5)",
        "socket.create_connection(address, 30)",
        "process.wait(5)",
        "thread.join(60)",
        "cluster.wait(lambda: True, 'it is so', 90)",
        "cluster.wait_ends(job, limit_s=240)",
        "LIMIT_S = 240\nprocess.wait(LIMIT_S)",
        "A_S, B_S = 3, 4\nprocess.wait(B_S)",
        "end_s = time.monotonic() + 12",
    ],
)
def test_hopes_are_seen(source: str) -> None:
    assert len(complaints(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "while not done():\n    time.sleep(POLL_S)",
        "while not done():\n    time.sleep(0.01)",
        "while not done():\n    changed.wait(0.01)",
        "async def f(): await asyncio.sleep(0)",
        "asyncio.sleep(END_S)",
        "asyncio.timeout(ANSWER_S)",
        "asyncio.wait_for(story(), 4 * ANSWER_S)",
        "sock.settimeout(None)",
        "queue.get(timeout=0)",
        "job(limit_s=60)",
        "', '.join(words)",
    ],
)
def test_waiting_is_left_alone(source: str) -> None:
    assert complaints(ast.parse(source)) == []


def test_deadlines_grow_with_a_slow_machine_and_in_a_repeat() -> None:
    assert [patience.slowness(s) for s in (0.01, 0.2, 0.4, 9.0)] == [1.0, 1.0, 2.0, 10.0]
    assert patience.scaled(120.0, 1.0, False) == 120.0
    assert patience.scaled(120.0, 2.0, False) == 240.0
    assert patience.scaled(120.0, 1.0, True) == 360.0
    assert patience.scaled(120.0, 10.0, True) == patience.LONGEST_S
    quiet = list(patience.QUIET_S.values())
    assert all(before <= after for before, after in pairwise(quiet))


def test_a_deadline_ends_before_the_test_does(pytestconfig: pytest.Config) -> None:
    limit_s, worker_s = (float(pytestconfig.getini(name)) for name in ("timeout", "faulthandler_timeout"))
    assert patience.LONGEST_S < limit_s < worker_s
