"""Finds every write to the core's state and to its records in the source, with its writer.

A write is an assignment, an augmented assignment or `del` of an attribute or of what is stored under it, `setattr`, and
a call of a container's own mutator (`append`, `pop`, `setdefault`, ...). A call of a method that one of our classes defines
is not a write of the caller: the class owns its data.

Whose attribute it is follows from the receiver's type, as far as coretypes.py infers it. Where it does not, a name that
is an attribute of exactly one class of the state or the records is that one's, whatever the receiver; a name that several
share is reported as `?.name`. Local names of attributes (`due = state.limits.due`) are followed; containers that are
arguments of other functions are not.
"""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import tidytree as tree
from coretypes import UNKNOWN, CoreTypes, Local

from ctld.core.state.books import LimitLedger
from ctld.core.state.priority_columns import Priorities
from ctld.core.state.reason_backlog import ReasonBacklog
from ctld.core.state.state import ClusterState

MUTATORS = frozenset((
    "add", "append", "appendleft", "clear", "discard", "drop", "extend", "extendleft", "insert", "pop", "popitem", "popleft",
    "remove", "reverse", "setdefault", "sort", "update",
))  # fmt: skip
#: Calls that write their first argument: accounts/draft.py.
DRAFTED = frozenset(f"{name}.{method}" for name in ("self", "draft") for method in ("put", "drop"))
#: Calls that write the attribute of their first argument that the second one names.
SETTERS = frozenset(("setattr", "object.__setattr__", "self.set", "draft.set"))
#: Bases of classes whose objects never change.
FIXED = frozenset(("NamedTuple", "Protocol", "Enum", "IntEnum", "StrEnum", "IntFlag", "Event"))

#: Records that the state has one of as an attribute, beside those in its tables.
ROOTS = ("Assoc",)


class Write(NamedTuple):
    """`what`: the path of an attribute of the state, as outputs.effects, or Record.field, or ?.field."""

    what: str
    line: int


class Target(NamedTuple):
    """What is written: an attribute. `method`: the mutator that is called of what is stored there."""

    node: ast.AST
    receiver: ast.expr
    attribute: str  # "" = one whose name is computed
    method: str = ""


def sample_state() -> ClusterState:
    """A state with all optional parts present, so that paths can be followed."""
    state = ClusterState()
    state.limits.ledger = LimitLedger()
    state.priorities = Priorities.__new__(Priorities)
    state.scheduling.reason_backlog = ReasonBacklog((), ())
    return state


class Owned:
    """The attributes of the state and of the records, and what they are called in the tables of owners."""

    def __init__(self) -> None:
        self.core = CoreTypes(tree.tree_of(path) for path in tree.sources("ctld/core"))
        kept = CoreTypes(tree.tree_of(p) for room in ("records", "state") for p in tree.sources(f"ctld/core/{room}"))
        self.paths: dict[str, str] = {}  # of classes that are a part of the state
        self._enter_parts(sample_state(), "", kept)
        self.classes = [name for name in kept.classes if not self._is_fixed(name)]
        self.labels: dict[str, list[str]] = {}  # attribute -> what it may be
        for name in self.classes:
            for attribute in kept.attributes[name]:
                label = self.label(name, attribute)
                known = self.labels.setdefault(attribute, [])
                known += [label] if label not in known else []

    def _enter_parts(self, part: object, path: str, kept: CoreTypes) -> None:
        name = type(part).__name__
        if name not in kept.classes or name in self.paths or name in ROOTS:
            return
        self.paths[name] = path
        for attribute in kept.attributes[name]:
            value = getattr(part, attribute, None)
            if type(value).__module__.startswith("ctld.core") and not isinstance(value, tuple):
                self._enter_parts(value, f"{path}.{attribute}".lstrip("."), kept)

    def _is_fixed(self, name: str) -> bool:
        node = self.core.classes[name]
        words = [ast.unparse(word) for word in (*node.keywords, *node.decorator_list)]
        line = self.core.line(name)
        bases = {base for one in line for base in self.core.bases[one]}
        return any("frozen=True" in word for word in words) or bool(bases & FIXED)

    def label(self, name: str, attribute: str) -> str:
        """What an attribute of a class is called; "" = it has none of that name."""
        owner = next((c for c in self.core.line(name) if attribute in self.core.attributes.get(c, ())), "")
        if not attribute:
            owner = name
        if owner in self.paths:
            return f"{self.paths[owner]}.{attribute or '<any>'}".lstrip(".")
        if owner.endswith("Fields"):  # written by tools/records, for one class
            owner = next(c for c, bases in self.core.bases.items() if owner in bases)
        return f"{owner}.{attribute or '<any>'}" if owner else ""

    def written(self, target: Target, local: Local, is_core: bool) -> list[str]:
        """The labels of what is written."""
        if target.method and self._is_ours(target, local):
            return []
        types = local.types(target.receiver)
        found = [label for name in types if name in self.classes and (label := self.label(name, target.attribute))]
        found = found or self._inside(target, local)
        if found or UNKNOWN not in types or not is_core:
            return found
        if not target.attribute:
            return ["?.<any>"]
        known = self.labels.get(target.attribute, [])
        return known if len(known) < 2 else [f"?.{target.attribute}"]

    def _inside(self, target: Target, local: Local) -> list[str]:
        """The same of an attribute of an object of no class of ours, such as columns, which an attribute of ours holds."""
        holders = (
            local.aliases.get(target.receiver.id, []) if isinstance(target.receiver, ast.Name) else [target.receiver]
        )
        return [
            f"{label}.{target.attribute}"
            for holder in holders
            if isinstance(holder, ast.Attribute)
            for name in local.types(holder.value)
            if name in self.paths and (label := self.label(name, holder.attr))
        ]

    def _is_ours(self, target: Target, local: Local) -> bool:
        """The mutator that is called there is one that a class of ours defines."""
        held = self.core.attribute(local.types(target.receiver), target.attribute)
        return any(target.method in self.core.methods.get(c, ()) for name in held for c in self.core.line(name))


@cache
def owned() -> Owned:
    """Read once."""
    return Owned()


def writes(module: ast.Module, is_core: bool = True) -> Iterator[Write]:
    """All writes of a module. Not `is_core`: only those whose receiver is certain, as replies have the same names."""
    known = owned()
    for function, owner in _functions(module):
        local = Local(known.core, function, owner)
        for target in _targets(function, local):
            for what in dict.fromkeys(known.written(target, local, is_core)):
                yield Write(what, getattr(target.node, "lineno", 0))


def state_writes(module: ast.Module) -> Iterator[Write]:
    """Writes to attributes of the state and its parts alone."""
    return (write for write in writes(module) if write.what[0].islower())


def _functions(module: ast.Module) -> Iterator[tuple[ast.FunctionDef, str]]:
    """All top-level functions and methods, with the class of a method; nested ones are part of them."""
    waiting: list[tuple[ast.AST, str]] = [(module, "")]
    while waiting:
        parent, owner = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.FunctionDef):
                yield child, owner
            else:
                waiting.append((child, child.name if isinstance(child, ast.ClassDef) else owner))


def _targets(function: ast.FunctionDef, local: Local) -> Iterator[Target]:
    """All targets of writes that are attributes, or are stored under one."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.Delete)):
            found = list(node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.comprehension)):
            found = [node.target]
        elif isinstance(node, ast.Call):
            yield from _called(node, local)
            continue
        else:
            continue
        while found:
            target = found.pop()
            if isinstance(target, (ast.Tuple, ast.List)):
                found += target.elts
            elif isinstance(target, ast.Starred):
                found.append(target.value)
            elif isinstance(target, ast.Attribute):
                yield Target(target, target.value, target.attr)
            elif isinstance(target, ast.Subscript):
                yield from _stored(target, target, local, "")


def _called(call: ast.Call, local: Local) -> Iterator[Target]:
    """The targets of a call that writes."""
    called = ast.unparse(call.func)
    if called in SETTERS and len(call.args) >= 2:
        name = call.args[1]
        yield Target(call, call.args[0], str(name.value) if isinstance(name, ast.Constant) else "")
    elif called in DRAFTED and call.args:
        yield from _stored(call, call.args[0], local, "")
    elif isinstance(call.func, ast.Attribute) and call.func.attr in MUTATORS:
        yield from _stored(call, call.func.value, local, call.func.attr)


def _stored(node: ast.AST, inner: ast.expr, local: Local, method: str) -> Iterator[Target]:
    """The attributes under which a container that changes is stored."""
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    if isinstance(inner, ast.Attribute):
        yield Target(node, inner.value, inner.attr, method)
    elif isinstance(inner, ast.Name):
        yield from (Target(node, alias.value, alias.attr, method) for alias in local.aliases.get(inner.id, ()))
