"""Constructs that this project never uses: each is a known way to be hurt, and each is found on the syntax tree.

Every rule is a function from a node to a complaint or None; the samples below prove that it sees what it should.
"""

import ast
from collections.abc import Callable

import pytest
import tidytree as tree


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute chain, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def shell(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    if any(
        k.arg == "shell" and not (isinstance(k.value, ast.Constant) and k.value.value is False) for k in node.keywords
    ):
        return "shell=True: pass a list of words"
    if dotted(node.func) in {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}:
        return f"{dotted(node.func)} runs a shell: use subprocess with a list of words"
    return None


UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def unsafe_import(node: ast.AST) -> str | None:
    names = []
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    bad = sorted({n.split(".")[0] for n in names} & UNSAFE_MODULES)
    return f"{bad[0]} runs what it reads: use json, msgspec or protobuf" if bad else None


def evaluates(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
        return f"{node.func.id}() runs text as code"
    return None


def bare_except(node: ast.AST) -> str | None:
    return "bare except: name what can go wrong" if isinstance(node, ast.ExceptHandler) and node.type is None else None


def silent_handler(node: ast.AST) -> str | None:
    if not (isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name)):
        return None
    swallows = len(node.body) == 1 and isinstance(node.body[0], (ast.Pass, ast.Continue))
    return (
        f"except {node.type.id} that does nothing hides faults"
        if swallows and node.type.id in {"Exception", "BaseException"}
        else None
    )


SQL_CALLS = {"text", "sa.text", "sqlalchemy.text", "exec_driver_sql", "execute", "executemany", "executescript"}


def formatted_sql(node: ast.AST) -> str | None:
    if not (isinstance(node, ast.Call) and node.args):
        return None
    name = dotted(node.func)
    if not (name in SQL_CALLS or name.rpartition(".")[2] in SQL_CALLS - {"text"}):
        return None
    first = node.args[0]
    formatted = (isinstance(first, ast.JoinedStr) and any(isinstance(v, ast.FormattedValue) for v in first.values)) or (
        isinstance(first, ast.BinOp)
        and isinstance(first.op, (ast.Mod, ast.Add))
        and any(isinstance(n, (ast.Constant, ast.JoinedStr)) for n in (first.left, first.right))
    )
    formatted = formatted or (
        isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "format"
    )
    return f"{name}() with formatted text: SQL takes bound parameters only" if formatted else None


def packed(node: ast.AST) -> str | None:
    """Several assignments in one line. An exchange, where a value reads another one's target, needs to be one."""
    if not isinstance(node, ast.Assign):
        return None
    attributes = sum(isinstance(target, ast.Attribute) for target in node.targets)
    if attributes >= 2 and isinstance(node.value, (ast.Constant, ast.UnaryOp)):
        return "one constant for several attributes: a line for each"
    target, value = node.targets[0], node.value
    if len(node.targets) > 1 or not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
        return None
    if any(isinstance(part, ast.Starred) for part in value.elts):
        return None
    is_long = len(target.elts) >= 3 or any(isinstance(part, ast.Attribute) for part in target.elts)
    return "assignments packed into tuples: a line for each" if is_long and not exchanges(target, value) else None


def exchanges(target: ast.Tuple, value: ast.Tuple) -> bool:
    read = [{ast.unparse(n) for n in ast.walk(part) if isinstance(n, ast.expr)} for part in value.elts]
    return any(ast.unparse(t) in names for i, t in enumerate(target.elts) for j, names in enumerate(read) if i != j)


def first_of_dict(node: ast.AST) -> str | None:
    """Takes the first key of a dict out. CPython steps over all that were deleted before it, so emptying one takes the square
    of its length: 3.8 s for 100,000."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    parts = list(ast.walk(node))
    firsts = {ast.unparse(part): first for part in parts if (first := _first(part))}
    for part in parts:  # names of the first key
        if isinstance(part, ast.Assign | ast.NamedExpr) and (first := _first(part.value)):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            firsts[ast.unparse(target.elts[0] if isinstance(target, ast.Tuple) else target)] = first
    for owner, key in (gone for part in parts for gone in _deleted(part)):
        if firsts.get(ast.unparse(key)) == ast.unparse(owner):
            return f"the first key of {ast.unparse(owner)} is looked for and deleted: OrderedDict.popitem(last=False)"
    return None


def _deleted(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Each (dict, key) of `del d[key]` and `d.pop(key)`."""
    if isinstance(node, ast.Delete):
        return [(target.value, target.slice) for target in node.targets if isinstance(target, ast.Subscript)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and node.args:
        return [(node.func.value, node.args[0])]
    return []


def _first(node: ast.AST) -> str:
    """`d` of `next(iter(d))` and `next(iter(d.items()))`, else an empty string."""
    if not (isinstance(node, ast.Call) and dotted(node.func) == "next" and isinstance(node.args[0], ast.Call)):
        return ""
    inner = node.args[0]
    if dotted(inner.func) != "iter":
        return ""
    return ast.unparse(inner.args[0]).removesuffix(".items()").removesuffix(".keys()")


RULES: tuple[Callable[[ast.AST], str | None], ...] = (
    shell,
    unsafe_import,
    evaluates,
    bare_except,
    silent_handler,
    formatted_sql,
    packed,
    first_of_dict,
)
#: (file, rule) -> why it is right there.
ALLOWED: dict[tuple[str, str], str] = {
    ("ctld/core/state/job_step_table.py", "first_of_dict"): "each job has one, of ENDED_KEPT keys: it is to be small",
}


def complaints(module: ast.Module) -> list[tuple[int, str, str]]:
    return [
        (getattr(node, "lineno", 0), rule.__name__, said)
        for node in tree.nodes_of(module)
        for rule in RULES
        if (said := rule(node))
    ]


def test_no_forbidden_construct() -> None:
    found, used = [], set()
    for path in tree.sources(*tree.PACKAGES, *tree.OPTIONAL_PACKAGES, "tools", "bench"):
        for line, rule, said in complaints(tree.tree_of(path)):
            if (key := (tree.name_of(path), rule)) in ALLOWED:
                used.add(key)
            else:
                found.append(f"{tree.name_of(path)}:{line}: {said}")
    assert not found, "\n".join(found)
    assert used == set(ALLOWED), "ALLOWED names what is not there any more"


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("subprocess.run('ls', shell=True)", "shell"),
        ("subprocess.run(c, shell=flag)", "shell"),
        ("os.system('ls')", "shell"),
        ("import pickle", "unsafe_import"),
        ("from marshal import loads", "unsafe_import"),
        ("eval('1')", "evaluates"),
        ("try:\n    f()\nexcept:\n    raise", "bare_except"),
        ("try:\n    f()\nexcept Exception:\n    pass", "silent_handler"),
        ("text(f'SELECT {x}')", "formatted_sql"),
        ("sa.text('SELECT %s' % x)", "formatted_sql"),
        ("connection.execute('SELECT ' + x)", "formatted_sql"),
        ("cursor.execute('SELECT {}'.format(x))", "formatted_sql"),
        ("self.a, self.b = a, b", "packed"),
        ("a, b, c = 1, 2, 3", "packed"),
        ("self.a = self.b = 0", "packed"),
        ("n.x, n.y = n.x - 1, n.y - 1", "packed"),
        ("def f():\n    while d:\n        k = next(iter(d))\n        del d[k]", "first_of_dict"),
        ("def f():\n    del self.d[next(iter(self.d))]", "first_of_dict"),
        ("async def f():\n    k, v = next(iter(d.items()))\n    d.pop(k)", "first_of_dict"),
    ],
)
def test_each_rule_sees_its_construct(source: str, rule: str) -> None:
    assert [found for _, found, _ in complaints(ast.parse(source))] == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(['ls'], shell=False)",
        "text('SELECT 1')",
        "connection.execute(text('SELECT :x'), {'x': 1})",
        "model.eval()",
        "try:\n    f()\nexcept FileNotFoundError:\n    pass",
        "connection.execute(select(a + b))",
        "low, high = 0, 1",
        "inbox, self.inbox = self.inbox, []",
        "self.a, self.b = self.b, self.a",
        "self.a, self.b = pair",
        "a, b, c = f()",
        "a, b, c = x, *f()",
        "self.used_at_s = now_s = clock()",
        "def f():\n    k = next(iter(d))\n    del e[k]",
        "def f():\n    d.popitem(last=False)",
    ],
)
def test_what_is_fine_is_left_alone(source: str) -> None:
    assert complaints(ast.parse(source)) == []
