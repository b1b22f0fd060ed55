"""The two halves of a handler, read from the source: it checks and may refuse, says `state.applying()`, and then applies.

For every request in the table of handlers: some function that it leads to says `applying`; before that line nothing is
written, after it nothing is refused, neither there nor in what is called, as far as the source shows (corecalls.py says
what is seen). What the source does not show, tests/core/test_unexpected_errors.py does: on every scenario, each request first
fails where it says `applying`, and nothing may have changed.

Facts (a node's report, a plan, a timer) have no halves: they cannot be refused.
"""

import ast
from collections.abc import Iterable
from functools import cache

import tidytree as tree
from corecalls import Calls, Function, own_nodes
from statewrites import state_writes

from ctld.core.dispatch import _HANDLERS  # private: as they are written, before their changes are audited
from ctld.core.state.state import ClusterState

Key = tuple[str, str]

#: Answers that are remembered and hold as long as nothing has changed, and what is counted of the request itself.
REMEMBERED = (
    "handling.", "layout.assoc_numbers", "layout.feasible", "layout.hres_free", "layout.hres_sets", "layout.masks", "layout.placements", "layout.shapes_known",
    "layout.user_numbers", "limits.ledger.chains", "limits.ledger.rules", "limits.ledger.demands", "submissions.accepted", "submissions.completed",
    "submissions.shared",
)  # fmt: skip
#: Methods of the state that change nothing that decides.
READERS = frozenset(("applying", "assoc_number", "is_dirty", "licenses_taken", "licenses_of", "reply", "user_number"))
WRITERS = frozenset(n for n, f in vars(ClusterState).items() if callable(f) and not n.startswith("_")) - READERS
#: Modules of the mutators themselves.
MUTATORS = ("ctld.core.state.", "ctld.core.records.")
#: Functions and tables that are not followed, and why.
NOT_FOLLOWED: dict[Key, str] = {
    ("ctld.core.limits.ledger", "settle"): "counts what has happened before; who asks first changes no sum",
    ("ctld.core.queue.feasibility", "_plan_alone"): "counts the shares of GPUs that have changed before, likewise",
    ("ctld.core.requests.update_keys", "KEYS"): "a column for each half of an update; `_apply` calls the second alone",
    ("ctld.core.requests.control", "ACTIONS"): "the second halves; `act` calls them after `applying`",
    ("ctld.core.nodes.admin", "REBOOTS"): "the second halves; `_check` looks only whether a word is among them",
}


def applying_line(function: Function) -> int:
    """Where a function says it; 0 = nowhere."""
    for node in own_nodes(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "applying":
            return node.lineno
    return 0


def refusing_lines(function: Function) -> list[int]:
    """Where it raises a refusal."""
    raised = [node for node in own_nodes(function.node) if isinstance(node, ast.Raise) and node.exc is not None]
    words = ("Refused", "refus", "not_yours", "BadValue")
    return [node.lineno for node in raised if any(word in ast.unparse(node.exc or node) for word in words)]


def is_caught(function: Function, reference: ast.AST) -> bool:
    """It stands in a `try` that takes a refusal."""
    for node in own_nodes(function.node):
        if isinstance(node, ast.Try) and any(inner is reference for part in node.body for inner in ast.walk(part)):
            taken = [ast.unparse(handler.type) for handler in node.handlers if handler.type is not None]
            if any("Refused" in name or name == "Exception" for name in taken):
                return True
    return False


def writing_lines(function: Function) -> list[int]:
    """Where it writes what decides, itself."""
    if not isinstance(function.node, ast.FunctionDef) or function.module.startswith(
        ("ctld.core.state", "ctld.core.records")
    ):
        return []
    own = list(own_nodes(function.node))
    lines = {getattr(node, "lineno", 0) for node in own}
    found = [
        write.line
        for write in state_writes(ast.Module([function.node], []))
        if not write.what.startswith(REMEMBERED) and write.line in lines
    ]
    for node in own:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if (owner == "state" and node.func.attr in WRITERS) or (owner, node.func.attr) == ("state.timers", "set"):
                found.append(node.lineno)
    return found


def spread(calls: Calls, first: Iterable[Key], stop: Iterable[Key], caught: bool) -> dict[Key, Key | None]:
    """Those that lead to one of `first`, and by what; not through `stop`. `caught`: a `try` around it ends the way."""
    callers: dict[Key, list[tuple[Key, ast.AST]]] = {}
    for key in calls.functions:
        if not key[0].startswith(MUTATORS):
            for to, node in _references(calls, key):
                callers.setdefault(to, []).append((key, node))
    stops = {*stop, *NOT_FOLLOWED}
    found: dict[Key, Key | None] = {key: None for key in first if key not in stops}
    waiting = list(found)
    while waiting:
        to = waiting.pop()
        for key, node in callers.get(to, ()):
            if key not in found and key not in stops and not (caught and is_caught(calls.functions[key], node)):
                found[key] = to
                waiting.append(key)
    return found


@cache
def whole() -> Calls:
    """Of the core; read once."""
    return Calls(tree.sources("ctld/core"))


@cache
def _references(calls: Calls, key: Key) -> tuple[tuple[Key, ast.AST], ...]:
    return tuple(calls.references(calls.functions[key]))


def way(found: dict[Key, Key | None], key: Key) -> str:
    """How a function leads there, in words."""
    names = [key[1]]
    at = found[key]
    while at is not None:
        names.append(at[1])
        at = found[at]
    return " > ".join(names)


def judge(calls: Calls, requests: dict[str, Key]) -> list[str]:
    """What breaks the rule."""
    applying = {key: line for key, function in calls.functions.items() if (line := applying_line(function))}
    refusing = spread(calls, [k for k, f in calls.functions.items() if refusing_lines(f)], (), caught=True)
    writes = {key: writing_lines(function) for key, function in calls.functions.items()}
    writing = spread(calls, [k for k, lines in writes.items() if lines and k not in applying], applying, caught=False)
    bad, seen = [], dict.fromkeys(requests.values())
    for name, handler in requests.items():
        reach = calls.reach([handler])
        if not any(key in applying for key in reach):
            bad.append(f"{name}: {handler[1]} never says applying()")
        seen |= {key: None for key in reach if key in applying}
    for key in seen:
        function = calls.functions[key]
        where = f"{key[0]}.{key[1]}"
        inner = [getattr(node, "lineno", 0) for to, node in _references(calls, key) if to in applying]
        line = applying.get(key) or min(inner, default=0)
        if not line:
            continue
        bad += [f"{where}:{n} writes before it says applying()" for n in writes[key] if n < line]
        if key in applying:
            bad += [f"{where}:{n} refuses after it has said applying()" for n in refusing_lines(function) if n > line]
        for to, node in _references(calls, key):
            at = getattr(node, "lineno", 0)
            if at < line and to in writing and to not in NOT_FOLLOWED:
                bad.append(f"{where}:{at} writes before it says applying(): {way(writing, to)}")
            if (
                at > line
                and key in applying
                and to in refusing
                and to not in NOT_FOLLOWED
                and not is_caught(function, node)
            ):
                bad.append(f"{where}:{at} may refuse after it has said applying(): {way(refusing, to)}")
    return bad


def requests() -> dict[str, Key]:
    """The handlers of what can be refused."""
    return {
        event.__name__: (handler.__module__, handler.__qualname__)
        for event, handler in _HANDLERS.items()
        if "reply_to" in getattr(event, "__struct_fields__")  # noqa: B009 (all are structs)
    }


def test_every_request_checks_then_says_so_then_applies() -> None:
    assert len(requests()) > 20
    assert judge(whole(), requests()) == []


def test_what_is_not_followed_is_there() -> None:
    calls = whole()
    assert [key for key in NOT_FOLLOWED if key not in calls.functions] == []


def broken(source: str) -> list[str]:
    """What is said of a handler that is written so."""
    calls = Calls(())  # of that source alone
    module = ast.parse(source)
    for node in module.body:
        calls.enter("tests.made_up", node)
    return [text.split(":", 1)[1] for text in judge(calls, {"MadeUp": ("tests.made_up", "handle")})]


def test_the_check_sees_what_it_should() -> None:
    helper = "def check(state):\n    raise Refused(1)\ndef apply(state):\n    state.limits.due[1] = None\n"
    start = helper + "def handle(state, now_us, event):\n"
    assert broken(start + "    check(state)\n    state.applying()\n    apply(state)\n") == []
    assert broken(start + "    check(state)\n    apply(state)\n") == [" handle never says applying()"]
    assert broken(start + "    apply(state)\n    state.applying()\n") == ["6 writes before it says applying(): apply"]
    assert broken(start + "    state.applying()\n    check(state)\n") == [
        "7 may refuse after it has said applying(): check"
    ]
    assert broken(start + "    state.next_job_id += 1\n    state.applying()\n") == [
        "6 writes before it says applying()"
    ]
    assert broken(start + "    state.applying()\n    raise Refused(1)\n") == ["7 refuses after it has said applying()"]
