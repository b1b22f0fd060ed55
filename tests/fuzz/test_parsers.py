"""Parsers never break, whatever they read: pieces of their languages put together, plain nonsense, hostile numbers.

`test_with_coverage` does the same with atheris, which follows the code's branches: a fixed number of runs with a fixed
seed here, as long as one likes with `make fuzz`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzztargets import BY_NAME, NO_CLUSTER, TARGETS, Target, call
from hypothesis import given
from hypothesis import strategies as st
from patience import END_S

HOSTILE = (
    "", " ", "-1", "0", "+5", "0x10", "1_000", "０", "1e309", "NaN", "inf", "2147483648", "9223372036854775808", "1" * 5000, "\n",
    "\t", "'", '"', ";", "--", "%", "%%", "{}", "$()", "`x`", "\x1b[31m", "\x7f", "\udcff", "é", "𝔸", "\u202e", "[", "]", "[[", "a[1-",
    "a[9-1]", "a[1-9999999999]", "(", ")" * 500, "(" * 5000, ",", ",,", "=", "==", ":", "::", "a" * 70000, "../../x", "/dev/zero", "\\", "\\\n",
)  # fmt: skip
RUNS = 30_000 if os.environ.get("PENSTOCK_HYPOTHESIS") == "full" else 6_000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CLUSTER", NO_CLUSTER)


def language(target: Target) -> st.SearchStrategy[str]:
    """Text of the pieces that the target's examples are made of, with nonsense between."""
    pieces = sorted({piece for seed in target.seeds for piece in re.findall(r"\w+|\W", seed)})
    word = st.one_of(
        st.sampled_from(pieces), st.sampled_from(HOSTILE[:40]), st.text(max_size=3), st.integers().map(str)
    )
    return st.lists(word, max_size=12).map("".join)


@pytest.mark.parametrize("name", BY_NAME)
def test_examples_and_hostile_values(name: str) -> None:
    target = BY_NAME[name]
    for text in (*target.seeds, *HOSTILE):
        call(target, text.replace("\0", ""))


@pytest.mark.parametrize("name", BY_NAME)
def test_random_text(name: str) -> None:
    target = BY_NAME[name]

    @given(language(target))
    def check(text: str) -> None:
        call(target, text.replace("\0", ""))

    check()


def test_a_parser_that_breaks_is_seen() -> None:
    with pytest.raises(KeyError):
        call(Target("broken", lambda text: dict[str, str]()[text], ()), "x")


def test_with_coverage(tmp_path: Path) -> None:
    line = [
        sys.executable,
        str(ROOT / "tests" / "support" / "fuzz.py"),
        "--runs",
        str(RUNS),
        "--findings",
        str(tmp_path),
    ]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=END_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"Done {RUNS} runs" in done.stderr
    assert len(TARGETS) > 50
