"""A `# type: ignore` in a test names what it ignores and says why: `# type: ignore[arg-type]  # a stand-in for the client`.

Better than one is none: `Any` for a stand-in, `cast`, or the type itself.
"""

import io
import re
import tokenize
from collections.abc import Iterator

import tidytree as tree

#: The code, and a reason of some words.
EXPLAINED = re.compile(r"# type: ignore\[[a-z, -]+\]\s+# \S+ \S+ \S+")


def unexplained(text: str) -> Iterator[int]:
    """The lines whose comment lacks the code or the reason."""
    if "type: ignore" not in text:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and "type: ignore" in token.string and not EXPLAINED.match(token.string):
            yield token.start[0]


def test_every_ignored_type_has_a_reason() -> None:
    bad = [f"{tree.name_of(path)}:{line}" for path in tree.sources("tests") for line in unexplained(path.read_text())]
    assert not bad, f"no `# type: ignore[code]  # why` at {', '.join(bad)}"


def test_reasons_are_seen() -> None:
    said = "# type: " + "ignore"
    lines = [
        said,
        f"{said}[misc]",
        f"{said}[misc]  # so",
        f"{said}  # it is so",
        f"{said}[misc]  # it is so",
        "# other",
    ]
    assert list(unexplained("\n".join(lines))) == [1, 2, 3, 4]
