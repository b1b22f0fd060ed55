"""Expands and compresses hostlists: `n[01-03,7],m[1-2]-ib[0-1]`.

A hostlist is names separated by commas (or white space, as in a file of nodes). A name may hold several brackets, each
with numbers and ranges; the leading zeros of a range's first number give the width: `[001-3]` is 001, 002, 003. Text
may follow a bracket. Order and duplicates are kept. The number of names is computed from the ranges before any name is
created, so a hostile range costs nothing.

`compress` folds only the last number of a name, as Slurm does: `m1-ib0,m1-ib1` becomes `m1-ib[0-1]`. Leading zeros are
significant: `n1` and `n01` are different nodes. Node sets, aliases and the keyword `ALL` require the configuration, and
are not handled here.
"""

import re
from collections.abc import Iterable, Iterator

from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.numbers import is_digits, parse_int
from penstock.values.text import shown

HOSTLIST_NODES_MAX = 65536  # largest cluster in one list, and the largest answer
HOSTLIST_TEXT_MAX = 4 * 1024 * 1024  # room for that many expanded names
NODE_NAME_MAX = 253  # longest DNS name
LIST_NAMES = 256  # in one list of a request: 64 KiB when each is the longest
RANGE_DIGITS_MAX = 18  # numbers below 10^18 fit a 64-bit integer

_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_PLAIN = re.compile(rf"[A-Za-z0-9_.\-]{{1,{NODE_NAME_MAX}}}")
_BETWEEN = re.compile(r"[, \t\r\n]+")

# One bracket: (first, last, width) per item. A name is a list of literal texts and brackets.
_Bracket = list[tuple[int, int, int]]


def expand(text: str, allowance: Allowance | None = None) -> list[str]:
    """Expands a hostlist to its names, in order. `allowance`: that of the request. Raises BadValue."""
    if len(text) > HOSTLIST_TEXT_MAX:
        raise BadValue(f"Invalid hostlist: {len(text)} characters, the limit is {HOSTLIST_TEXT_MAX}")
    if allowance is not None:
        allowance.read(text)
    names: list[str] = []
    if "[" not in text and "]" not in text:  # no brackets: nothing to parse
        names = [item for item in _BETWEEN.split(text) if item]
        _spend(allowance, len(names), len(names))
        for item in names:
            if not _PLAIN.fullmatch(item):
                _check_chars(item, item)
        return names
    for item in _split(text):
        if "[" not in item and "]" not in item:
            _check_chars(item, item)
            _spend(allowance, 1, len(names) + 1)
            names.append(item)
            continue
        parts = _parse_name(item)
        number = _count(parts, item)
        _spend(allowance, number, len(names) + number)
        names.extend(_names(parts, item))
    return names


def repeated(text: str) -> str:
    """Writes out the hosts of a list that are repeated by a count: `n1*2,n[2-3]` is `n1,n1,n[2-3]`. Raises BadValue."""
    parts, total = [], 0
    for item in _split(text):
        name, star, count = item.partition("*")
        if not name:
            raise BadValue(f"Invalid hostlist: no name before {shown(item)}")
        times = parse_int(count, 1, HOSTLIST_NODES_MAX, f"count of {shown(name)}") if star else 1
        total += times
        _check_total(total)
        parts.append((name, times))
    if sum((len(name) + 1) * times for name, times in parts) > HOSTLIST_TEXT_MAX:
        raise BadValue(f"Invalid hostlist: more than {HOSTLIST_TEXT_MAX} characters")
    return ",".join(name for name, times in parts for _ in range(times))


def expand_all(texts: Iterable[str]) -> dict[str, None]:
    """Expands all hostlists of a request to distinct names, within one allowance."""
    allowance = Allowance()
    return dict.fromkeys(name for text in texts for name in expand(text, allowance))


def as_lists(names: Iterable[str]) -> list[str]:
    """Returns hostlists that together name these, each short enough for a request; a request may not have so many names."""
    found = list(dict.fromkeys(names))
    return [compress(found[at : at + LIST_NAMES]) for at in range(0, len(found), LIST_NAMES)]


def _spend(allowance: Allowance | None, number: int, total: int) -> None:
    """Charges `number` names that are about to be created; `total` includes them."""
    _check_total(total)
    if allowance is not None:
        allowance.spend(number)


def _check_total(total: int) -> None:
    if total > HOSTLIST_NODES_MAX:
        raise BadValue(f"Invalid hostlist: more than {HOSTLIST_NODES_MAX} nodes")


def _check_chars(text: str, item: str) -> None:
    if not _NAME_CHARS.issuperset(text):
        raise BadValue(f"Invalid hostlist: {shown(item)} holds characters other than letters, digits, '-', '_' and '.'")
    if len(text) > NODE_NAME_MAX:
        raise BadValue(f"Invalid hostlist: {shown(item)} is longer than {NODE_NAME_MAX} characters")


def _split(text: str) -> Iterator[str]:
    """Yields the items between commas and white space outside brackets; skips empty ones."""
    depth = start = 0
    for at, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif depth == 0 and char in ", \t\r\n":
            if at > start:
                yield text[start:at]
            start = at + 1
        if depth not in (0, 1):
            raise BadValue(f"Invalid hostlist: unbalanced brackets in {shown(text)}")
    if depth:
        raise BadValue(f"Invalid hostlist: unbalanced brackets in {shown(text)}")
    if len(text) > start:
        yield text[start:]


def _parse_name(item: str) -> list[str | _Bracket]:
    """Parses `m[1-2]-ib[0-1]` to ["m", bracket, "-ib", bracket, ""]. Brackets are already balanced."""
    first, *rest = item.split("[")
    _check_chars(first, item)
    parts: list[str | _Bracket] = [first]
    for piece in rest:
        inside, _, after = piece.partition("]")
        _check_chars(after, item)
        parts.append([_parse_range(one, item) for one in inside.split(",")])
        parts.append(after)
    return parts


def _parse_range(text: str, item: str) -> tuple[int, int, int]:
    low, dash, high = text.partition("-")
    high = high if dash else low
    if not (is_digits(low) and is_digits(high)):
        raise BadValue(f"Invalid hostlist: {shown(text)} in {shown(item)} is not a number or a range of numbers")
    if max(len(low), len(high)) > RANGE_DIGITS_MAX:
        raise BadValue(f"Invalid hostlist: {shown(text)} has more than {RANGE_DIGITS_MAX} digits")
    if int(low) > int(high):
        raise BadValue(f"Invalid hostlist: range {shown(text)} runs backwards")
    return int(low), int(high), len(low)


def _count(parts: list[str | _Bracket], item: str) -> int:
    """Returns the number of names, without expanding them. Raises BadValue if there are too many, or one is too long."""
    count, length = 1, 0
    for part in parts:
        if isinstance(part, str):
            length += len(part)
        else:
            count *= sum(high - low + 1 for low, high, _ in part)
            length += max(max(len(str(high)), width) for _, high, width in part)
        _check_total(count)
    if length > NODE_NAME_MAX:
        raise BadValue(f"Invalid hostlist: {shown(item)} gives names longer than {NODE_NAME_MAX} characters")
    return count


def _names(parts: list[str | _Bracket], item: str) -> list[str]:
    names = [""]
    for part in parts:
        if isinstance(part, str):
            names = [name + part for name in names] if part else names
        else:
            numbers = [f"{n:0{width}d}" for low, high, width in part for n in range(low, high + 1)]
            names = [name + number for name in names for number in numbers]
    return names


def compress(names: Iterable[str], keep_order: bool = False) -> str:
    """Compresses names to one hostlist in Slurm's form; "" for none.

    The names are sorted, unless `keep_order` (`scontrol show hostlist` folds adjacent names only). Duplicates are kept.
    """
    split = [_split_number(name) for name in names]
    if not keep_order:
        split.sort(key=lambda pair: pair[0])
    items: list[str] = []
    start = 0
    for at in range(1, len(split) + 1):
        if at == len(split) or split[at][0] != split[start][0]:
            items.extend(_fold(split[start][0], [digits for _, digits in split[start:at]], keep_order))
            start = at
    return ",".join(items)


def _split_number(name: str) -> tuple[str, str]:
    """Splits `m1-ib07` to ("m1-ib", "07"). Digits beyond the limit stay in the stem, so that `expand` accepts the result."""
    stem = name.rstrip("0123456789")
    cut = max(len(stem), len(name) - RANGE_DIGITS_MAX)
    return name[:cut], name[cut:]


class _Run:
    """Consecutive numbers of one width; width 0 means no leading zeros."""

    __slots__ = ("first", "last", "last_number", "width")

    def __init__(self, digits: str) -> None:
        self.first = self.last = digits
        self.last_number = int(digits)
        self.width = len(digits) if _is_padded(digits) else 0

    def takes(self, digits: str) -> bool:
        if int(digits) != self.last_number + 1:
            return False
        return len(digits) == self.width if self.width else not _is_padded(digits)

    def add(self, digits: str) -> None:
        self.last = digits
        self.last_number = int(digits)

    def text(self) -> str:
        return self.first if self.first == self.last else f"{self.first}-{self.last}"


def _is_padded(digits: str) -> bool:
    return len(digits) > 1 and digits[0] == "0"


def _fold(stem: str, numbers: list[str], keep_order: bool) -> list[str]:
    """Returns the items for names with one stem: names without a number first, then at most one bracket."""
    bare = [stem] * numbers.count("")
    digits = [number for number in numbers if number]
    runs = _runs_as_given(digits) if keep_order else _runs_sorted(digits)
    if not runs:
        return bare
    if len(runs) == 1 and runs[0].first == runs[0].last:
        return [*bare, stem + runs[0].first]
    return [*bare, f"{stem}[{','.join(run.text() for run in runs)}]"]


def _runs_as_given(numbers: list[str]) -> list[_Run]:
    runs: list[_Run] = []
    for digits in numbers:
        if runs and runs[-1].takes(digits):
            runs[-1].add(digits)
        else:
            runs.append(_Run(digits))
    return runs


def _runs_sorted(numbers: list[str]) -> list[_Run]:
    """Returns runs ordered by first number. One run per width is open, so that n1,n01,n2,n02 gives 1-2 and 01-02."""
    runs: list[_Run] = []
    open_runs: dict[int, _Run] = {}
    for digits in sorted(numbers, key=lambda d: (int(d), len(d))):
        # A number without zeros extends the plain run or, from 099 to 100, the padded run of its own length.
        widths = (len(digits),) if _is_padded(digits) else (0, len(digits))
        run = next((open_runs[w] for w in widths if w in open_runs and open_runs[w].takes(digits)), None)
        if run is None:
            run = _Run(digits)
            open_runs[run.width] = run
            runs.append(run)
        else:
            run.add(digits)
    return runs
