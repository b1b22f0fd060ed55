"""The call graph of the core, read from the source, for checks of the functions that a handler can reach.

A reference counts as a call, since functions are passed as arguments (`each_target(..., act, ...)`) and are in tables;
a reference to a table counts for all of its entries. Methods are followed by class: a function that creates an object
may call all of its methods. Attributes of unknown objects are not followed.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import tidytree as tree


class Function(NamedTuple):
    """A function, or an assignment of a module to a name (a table): without nested functions."""

    module: str
    name: str
    node: ast.AST


class Calls:
    """All functions of the core by (module, qualified name), and their references."""

    def __init__(self, sources: Iterable[Path]) -> None:
        self.functions: dict[tuple[str, str], Function] = {}
        self._scope: dict[str, dict[str, tuple[str, str]]] = {}  # names of a module -> functions, here or elsewhere
        self._modules: dict[str, dict[str, str]] = {}  # names of a module -> modules
        trees = {}
        for path in sources:
            name = tree.name_of(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            trees[name] = tree.tree_of(path)
        for name, module in trees.items():
            for node in module.body:
                self.enter(name, node)
        for name, module in trees.items():
            for within in ast.walk(module):
                if isinstance(within, ast.ImportFrom):
                    for alias in within.names:
                        whole, here = f"{within.module}.{alias.name}", alias.asname or alias.name
                        if whole in trees:
                            self._modules[name][here] = whole
                        elif within.module in trees:
                            self._scope[name][here] = (within.module, alias.name)

    def enter(self, module: str, node: ast.stmt) -> None:
        """Adds a statement of a module."""
        scope = self._scope.setdefault(module, {})
        self._modules.setdefault(module, {})
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = node.name
            self.functions[module, name] = Function(module, name, node)
            scope.setdefault(name, (module, name))
            for child in ast.walk(node):
                if child is not node and isinstance(child, ast.FunctionDef):
                    self.functions.setdefault(
                        (module, f"{name}.{child.name}"), Function(module, f"{name}.{child.name}", child)
                    )
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    self.functions[module, target.id] = Function(module, target.id, node)
                    scope.setdefault(target.id, (module, target.id))

    def references(self, function: Function) -> Iterator[tuple[tuple[str, str], ast.AST]]:
        """(reference, position), in the order of the source."""
        for node in own_nodes(function.node):
            found: tuple[str, str] | None = None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                nested = (function.module, f"{function.name.split('.')[0]}.{node.id}")
                found = nested if nested in self.functions else self._scope[function.module].get(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = self._modules[function.module].get(node.value.id)
                found = (module, node.attr) if module else None
                if node.value.id == "self" and "." in function.name:
                    found = (function.module, f"{function.name.split('.')[0]}.{node.attr}")
            if found in self.functions and found != (function.module, function.name):
                yield found, node

    def reach(self, start: Iterable[tuple[str, str]]) -> dict[tuple[str, str], None]:
        """All functions reachable from these, including themselves."""
        seen: dict[tuple[str, str], None] = {}
        waiting = list(start)
        while waiting:
            key = waiting.pop()
            if key in seen or key not in self.functions:
                continue
            seen[key] = None
            waiting += [found for found, _ in self.references(self.functions[key])]
        return seen


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of nested functions and classes, in the order of the source."""
    body = getattr(function, "body", None)
    waiting = list(reversed(body if isinstance(body, list) else [function]))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            waiting += reversed(list(ast.iter_child_nodes(node)))
