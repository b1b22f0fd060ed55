"""Infers the classes of expressions in the core from its annotations: enough to say whose attribute is written.

An expression's types are annotations. Those of attributes, arguments and results are read from all classes and
functions of the source; assignments, loops and comprehensions give theirs to local names. What has no annotation on its
way is `UNKNOWN`, never a guess. The usual name of a record (`job`) is its type where nothing else is known.

Deliberately absent: narrowing, generics of our own, the order of statements. A name has all types that it is given anywhere
in its function.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache

#: The type of what cannot be inferred.
UNKNOWN = "unknown"
#: Types by their text, so that they can be compared.
Types = dict[str, None]
#: Variables that mean a record where their type cannot be inferred.
NAMES = {
    "assoc": "Assoc", "book": "LimitBook", "job": "Job", "node": "Node", "partition": "Partition", "record": "ArrayRecord",
    "state": "ClusterState", "step": "Step",
}  # fmt: skip
TABLES = frozenset(("dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict", "Counter"))
SEQUENCES = frozenset(
    ("list", "Sequence", "Iterable", "Iterator", "Collection", "Generator", "deque", "set", "frozenset", "chain")
)
#: Functions whose result has the type of their first argument, and those that return one of its elements.
SAME = frozenset(("sorted", "list", "tuple", "reversed", "iter", "dict", "set", "copy", "copy.copy", "deque", "filter"))
ONE_OF = frozenset(("next", "min", "max"))


@cache
def parsed(text: str) -> ast.expr:
    """An annotation; one that is written as a text has no more quotes."""
    try:
        expression = ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.Name(UNKNOWN)
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return parsed(expression.value)
    return expression


def members(text: str) -> Types:
    """The members of a union without None."""
    expression = parsed(text)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.BitOr):
        return members(ast.unparse(expression.left)) | members(ast.unparse(expression.right))
    if isinstance(expression, ast.Constant) and expression.value is None:
        return {}
    if isinstance(expression, ast.Subscript) and ast.unparse(expression.value) in ("Final", "ClassVar"):
        return members(ast.unparse(expression.slice))
    if isinstance(expression, ast.Subscript) and ast.unparse(expression.value) == "Callable":
        return {UNKNOWN: None}
    return {UNKNOWN if ast.unparse(expression) in ("Any", "object") else ast.unparse(expression): None}


def union(found: Iterable[Types]) -> Types:
    """All of them, each once."""
    return {text: None for types in found for text in types}


class CoreTypes:
    """The classes of a source, the types of their attributes and of the results of functions."""

    def __init__(self, modules: Iterable[ast.Module]) -> None:
        self.bases: dict[str, list[str]] = {}
        self.attributes: dict[str, dict[str, Types]] = {}
        self.methods: dict[str, dict[str, Types]] = {}
        self.functions: dict[str, Types] = {}
        self.names: dict[str, Types] = {}  # aliases of types
        bodies = [node for module in modules for node in module.body]
        self.classes = {node.name: node for node in bodies if isinstance(node, ast.ClassDef)}
        for node in bodies:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = self.functions.get(node.name, {}) | result_of(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.BinOp, ast.Subscript)):
                self.names[ast.unparse(node.targets[0])] = members(ast.unparse(node.value))
        for _ in range(2):  # the second time with the attributes of all classes
            for node in self.classes.values():
                self._enter_class(node)

    def _enter_class(self, node: ast.ClassDef) -> None:
        self.bases[node.name] = [ast.unparse(base) for base in node.bases]
        for base in node.bases:  # of `class KnownJobs(dict[int, Job])`
            if isinstance(base, ast.Subscript) and ast.unparse(base.value) in TABLES:
                self.names[node.name] = members(ast.unparse(base))
        found = self.attributes.setdefault(node.name, {})
        for child in node.body:
            if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                found[child.target.id] = members(ast.unparse(child.annotation))
            elif isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "__slots__":
                found |= {name: {UNKNOWN: None} for name in ast.literal_eval(child.value) if name not in found}
            elif isinstance(child, ast.FunctionDef):
                self.methods.setdefault(node.name, {})[child.name] = result_of(child)
                if child.name == "__init__":
                    self._enter_attributes(child, found)

    def _enter_attributes(self, init: ast.FunctionDef, found: dict[str, Types]) -> None:
        local = Local(self, init, "")
        for node in ast.walk(init):
            pairs: list[tuple[ast.expr, Types]]
            if isinstance(node, ast.AnnAssign):
                pairs = [(node.target, members(ast.unparse(node.annotation)))]
            elif isinstance(node, ast.Assign):
                pairs = [
                    (left, local.types(right)) for target in node.targets for left, right in paired(target, node.value)
                ]
            else:
                continue
            for target, types in pairs:
                name = target.attr if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" else ""
                if name and found.get(name, {UNKNOWN: None}) == {UNKNOWN: None}:
                    found[name] = types

    def line(self, name: str) -> list[str]:
        """A class and those that it derives from, as far as they are in the source."""
        return [name, *(far for base in self.bases.get(name, ()) for far in self.line(base) if base in self.classes)]

    def attribute(self, types: Types, name: str) -> Types:
        """The types of an attribute, or of a property or method's result, of such objects."""
        found: Types = {}
        for text in types:
            owners = [
                c for c in self.line(text) if name in self.attributes.get(c, ()) or name in self.methods.get(c, ())
            ]
            if not owners:
                found[UNKNOWN] = None
            elif name in self.attributes.get(owners[0], ()):
                found |= self.attributes[owners[0]][name]
            else:
                found |= self.methods[owners[0]][name]
        return found

    def alias(self, text: str) -> Types:
        """What an alias stands for."""
        return self.names.get(text, {text: None})

    def element(self, types: Types, index: ast.expr | None = None) -> Types:
        """The types of what is stored in such containers."""
        return union(self._element(found, index) for text in types for found in self.alias(text))

    def _element(self, text: str, index: ast.expr | None) -> Types:
        kind = parsed(text)
        if not isinstance(kind, ast.Subscript):
            return {UNKNOWN: None}
        name = ast.unparse(kind.value).split(".")[-1]
        parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        texts = [ast.unparse(part) for part in parts]
        if name in TABLES:
            return members(texts[-1] if index is not None else texts[0])
        if name in SEQUENCES:
            return {text: None} if isinstance(index, ast.Slice) else members(texts[0])
        if name in ("tuple", "Tuple"):
            if len(texts) == 2 and texts[1] == "...":
                return {text: None} if isinstance(index, ast.Slice) else members(texts[0])
            if isinstance(index, ast.Constant) and isinstance(index.value, int) and index.value < len(texts):
                return members(texts[index.value])
            return union(members(part) for part in texts)
        return {UNKNOWN: None}


class Local:
    """The names of one function."""

    def __init__(self, core: CoreTypes, function: ast.FunctionDef, owner: str) -> None:
        self._core = core
        self._names: dict[str, Types] = {"self": {owner: None}} if owner else {}
        self.aliases: dict[str, list[ast.Attribute]] = {}  # local names of attributes
        self._anything: set[str] = set()  # arguments that may be anything, whatever their names
        nodes = list(ast.walk(function))
        for node in nodes:
            if isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
                self._bind(
                    ast.Name(node.arg), members(ast.unparse(node.annotation)) if node.annotation else {UNKNOWN: None}
                )
                self._anything |= {node.arg} if node.annotation and ast.unparse(node.annotation) == "object" else set()
        for _ in range(3):
            for node in nodes:
                self._follow(node)

    def _follow(self, node: ast.AST) -> None:
        """Gives the names that a statement binds their types."""
        if isinstance(node, (ast.For, ast.comprehension)):
            self._bind(node.target, self._core.element(self.types(node.iter)))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for left, right in paired(target, node.value):
                    self._bind(left, self.types(right))
                    if isinstance(left, ast.Name) and isinstance(right, ast.Attribute):
                        known = self.aliases.setdefault(left.id, [])
                        known += [right] if right not in known else []
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, self.types(node.value))
        elif isinstance(node, ast.AnnAssign):
            self._bind(node.target, members(ast.unparse(node.annotation)))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, {UNKNOWN: None})

    def _bind(self, target: ast.expr, types: Types) -> None:
        if isinstance(target, ast.Name):
            known = self._names.setdefault(target.id, {})
            known |= types
            if len(known) > 1 and target.id in NAMES:
                known.pop(UNKNOWN, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for at, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    self._bind(part.value, types)
                else:
                    self._bind(part, self._core.element(types, ast.Constant(at)))

    def types(self, node: ast.expr) -> Types:
        """Those that an expression may have."""
        if isinstance(node, ast.Name):
            found = self._names.get(node.id, {UNKNOWN: None})
            return (
                {NAMES[node.id]: None}
                if found == {UNKNOWN: None} and node.id in NAMES.keys() - self._anything
                else found
            )
        if isinstance(node, ast.Attribute):
            found = self._core.attribute(self.types(node.value), node.attr)
            return {NAMES[node.attr]: None} if UNKNOWN in found and node.attr == "state" else found
        if isinstance(node, ast.Subscript):
            return self._core.element(self.types(node.value), node.slice)
        if isinstance(node, ast.Call):
            return self._result(node)
        return self._of_operator(node)

    def _of_operator(self, node: ast.expr) -> Types:
        if isinstance(node, ast.Constant) and node.value is None:
            return {}
        if isinstance(node, ast.IfExp):
            return self.types(node.body) | self.types(node.orelse)
        if isinstance(node, ast.BoolOp):
            return union(map(self.types, node.values))
        if isinstance(node, ast.NamedExpr):
            return self.types(node.value)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return {f"list[{text}]": None for text in self.types(node.elt)}
        if isinstance(node, ast.DictComp):
            return {f"dict[{key}, {text}]": None for key in self.types(node.key) for text in self.types(node.value)}
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            found = union(
                self._core.element(self.types(part.value)) if isinstance(part, ast.Starred) else self.types(part)
                for part in node.elts
            )
            return {f"list[{text}]": None for text in found}
        return {UNKNOWN: None}

    def _result(self, call: ast.Call) -> Types:
        called, core = ast.unparse(call.func), self._core
        if called in core.classes:
            return {called: None}
        if called in SAME and call.args:
            return self.types(call.args[-1] if called == "filter" else call.args[0])
        if called in ONE_OF and call.args:
            found = core.element(self.types(call.args[0]))
            return found | self.types(call.args[1]) if len(call.args) == 2 else found
        if called in ("enumerate", "zip"):
            inner = [" | ".join(core.element(self.types(one))) or UNKNOWN for one in call.args]
            return {f"list[tuple[{', '.join((['int'] if called == 'enumerate' else []) + inner)}]]": None}
        if isinstance(call.func, ast.Subscript):  # dict[int, Job]()
            return {called: None}
        if isinstance(call.func, ast.Attribute):
            found = union(self._method(text, call.func) for text in self.types(call.func.value))
            if set(found) - {UNKNOWN}:
                return found
            called = call.func.attr if isinstance(call.func.value, ast.Name) else ""
        return core.functions.get(called, {UNKNOWN: None})

    def _method(self, text: str, function: ast.Attribute) -> Types:
        core, name = self._core, function.attr
        if text in core.classes and not core.methods.get(text, {}).get(name, {}).keys() - {UNKNOWN}:
            text = next(iter(core.alias(text)))  # what it derives from, if that is a table
        kind = ast.unparse(getattr(parsed(text), "value", parsed(text))).split(".")[-1]
        anything = ast.Constant("key")
        if kind in TABLES:
            parts = [ast.unparse(p) for p in getattr(getattr(parsed(text), "slice", None), "elts", ())]
            if name in ("get", "pop", "setdefault"):
                return core.element({text: None}, anything)
            if name in ("values", "keys") and len(parts) == 2:
                return {f"list[{parts[name == 'values']}]": None}
            if name in ("items", "popitem") and len(parts) == 2:
                pair = f"tuple[{parts[0]}, {parts[1]}]"
                return {pair if name == "popitem" else f"list[{pair}]": None}
        if kind in SEQUENCES and name in ("pop", "popleft"):
            return core.element({text: None})
        if name == "copy":
            return {text: None}
        for owner in core.line(text):
            if name in core.methods.get(owner, ()):
                return core.methods[owner][name]
        return {UNKNOWN: None}


def result_of(function: ast.FunctionDef) -> Types:
    """The annotated types of a function's result."""
    return members(ast.unparse(function.returns)) if function.returns is not None else {UNKNOWN: None}


def paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment with their values; those of `a, b = 1, 2` one by one."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for left, right in zip(target.elts, value.elts, strict=True):
            yield from paired(left, right)
    else:
        yield target, value
