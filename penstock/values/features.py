"""Parses constraints on node features: `a100&ib`, `(v100|a100)&nvme`, `[rack1|rack2]`, `[a*2&b*4]`.

`&` (or `,`) and `|` have the same precedence and apply from left to right, as in Slurm; parentheses group. `[a|b]`
requires all nodes of the job to have the same one of them, `a*2` requires two nodes with `a`. Both apply to a set of
nodes: they are kept in the expression, and `matches`, which tests one node, treats `[a|b]` as `a|b` and `a*2` as `a`.
The configuration defines which features exist.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

FEATURES_TEXT_MAX = 4096  # characters in one constraint
FEATURES_DEPTH_MAX = 16  # nesting of parentheses
FEATURE_COUNT_MAX = 65536  # nodes in `a*N`

_PUNCTUATION = frozenset("_-.:=/")
_OPERATORS = {"&": "and", ",": "and", "|": "or"}
_CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class Expr:
    """One node of the expression tree; no constraint is an "and" without operands.

    kind: "name" (uses name), "and", "or", "xor" (use args), "count" (uses its one arg and count).
    """

    kind: str
    name: str = ""
    args: tuple["Expr", ...] = ()
    count: int = 0

    def matches(self, features: frozenset[str]) -> bool:
        """Whether one node with these features satisfies the expression."""
        if self.kind == "name":
            return self.name in features
        if self.kind in ("or", "xor"):
            return any(arg.matches(features) for arg in self.args)
        return all(arg.matches(features) for arg in self.args)

    def names(self) -> frozenset[str]:
        """Returns all features in the expression."""
        return frozenset({self.name} if self.kind == "name" else set().union(*(arg.names() for arg in self.args)))


def parse_features(text: str) -> Expr:
    """Parses a constraint; "" is no constraint. Raises BadValue."""
    if len(text) > FEATURES_TEXT_MAX:
        raise BadValue(f"Invalid feature specification: {len(text)} characters, the limit is {FEATURES_TEXT_MAX}")
    if not text:
        return Expr("and")
    return _Reader(text).sequence("", 0)


def _is_name_char(char: str) -> bool:
    return (char.isascii() and char.isalnum()) or char in _PUNCTUATION


class _Reader:
    """A recursive-descent parser over the characters of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _bad(self, why: str) -> BadValue:
        return BadValue(f"Invalid feature specification {shown(self._text)}: {why} at position {self._at}")

    def sequence(self, closing: str, depth: int) -> Expr:
        """Parses operands and operators up to `closing`, and consumes it ("" is the end of the text)."""
        if depth > FEATURES_DEPTH_MAX:
            raise self._bad(f"more than {FEATURES_DEPTH_MAX} levels of parentheses")
        left = self._operand(depth)
        while self._peek() != closing:
            kind = _OPERATORS.get(self._peek())
            if kind is None:
                raise self._bad(f"expected '&', '|' or {shown(closing) if closing else 'the end'}")
            self._at += 1
            right = self._operand(depth)
            # Consecutive operands of one operator become one node: a&b&c is not nested.
            args = (*left.args, right) if left.kind == kind and left.args else (left, right)
            left = Expr(kind, args=args)
        self._at += len(closing)
        return left

    def _operand(self, depth: int) -> Expr:
        opening = self._peek()
        if opening in _CLOSING:
            self._at += 1
            inner = self.sequence(_CLOSING[opening], depth + 1)
            expr = Expr("xor", args=inner.args if inner.kind == "or" else (inner,)) if opening == "[" else inner
        else:
            expr = Expr("name", name=self._word(_is_name_char, "a feature name"))
        if self._peek() != "*":
            return expr
        self._at += 1
        digits = self._word(str.isdigit, "a number of nodes")
        return Expr("count", args=(expr,), count=parse_int(digits, 1, FEATURE_COUNT_MAX, "number of nodes after '*'"))

    def _word(self, belongs: Callable[[str], bool], what: str) -> str:
        start = self._at
        while self._peek() and belongs(self._peek()):
            self._at += 1
        if start == self._at:
            raise self._bad(f"expected {what} (letters, digits and '_-.:=/')")
        return self._text[start : self._at]
