"""Facts about sources that both the tidy tests and the statistics of ARCHITECTURE.md use: uses of `Any`, circles of imports."""

import ast


def uses_of_any(module: ast.Module) -> list[int]:
    """The lines that say Any, once for each time; imports do not count. Texts that are annotations do."""
    nodes = list(ast.walk(module))
    found = [node.lineno for node in nodes if isinstance(node, ast.Name) and node.id == "Any"]
    for node in nodes:
        for said in _annotations(node):
            found += [
                text.lineno for text in ast.walk(said) if isinstance(text, ast.Constant) and _names_any(text.value)
            ]
    return sorted(found)


def _annotations(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.arg | ast.AnnAssign):
        return [node.annotation] if node.annotation is not None else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.returns] if node.returns is not None else []
    return []


def _names_any(text: object) -> bool:
    if not isinstance(text, str) or "Any" not in text:
        return False
    try:
        return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(ast.parse(text, mode="eval")))
    except SyntaxError:
        return False


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components), without recursion.

    A module that is imported and imports nothing need not be a key.
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in sorted(imports):
        work = [(start, iter(sorted(imports[start])))] if start not in order else []
        while work:
            module, rest = work[-1]
            if module not in order:
                order[module] = low[module] = len(order)
                stack.append(module)
            for other in rest:
                if other not in order:
                    work.append((other, iter(sorted(imports.get(other, ())))))
                    break
                if other in stack:
                    low[module] = min(low[module], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == order[module]:
                    at = stack.index(module)
                    group, stack[at:] = stack[at:], []
                    found += [sorted(group)] if len(group) > 1 else []
    return found
