"""Hostlists: Slurm's forms, round trips, and limits that hold before anything is expanded."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import ANSWER_S

from penstock.values.errors import BadValue
from penstock.values.hostlist import (
    HOSTLIST_NODES_MAX,
    HOSTLIST_TEXT_MAX,
    NODE_NAME_MAX,
    as_lists,
    compress,
    expand,
    expand_all,
    repeated,
)

STEADY = settings(deadline=None, derandomize=True)  # the same examples on any machine, however busy


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ""),
        ("n1", "n1"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[01-03,7]", "n01 n02 n03 n7"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[001-3]", "n001 n002 n003"),
        ("n[9-010]", "n9 n10"),
        ("[1-3]", "1 2 3"),
        ("m[1-2]-ib[0-1]", "m1-ib0 m1-ib1 m2-ib0 m2-ib1"),
        ("n[1-2]s", "n1s n2s"),
        ("n[1-2,4]-eth0,b,a", "n1-eth0 n2-eth0 n4-eth0 b a"),
        ("n1,,n2,", "n1 n2"),
        ("n1 n2\nn3\t", "n1 n2 n3"),
        ("n[1-2],n[1-2]", "n1 n2 n1 n2"),
        ("gpu-a.example.com", "gpu-a.example.com"),
    ],
)
def test_expand(text: str, names: str) -> None:
    assert expand(text) == names.split()


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("", ""),
        ("n3 n1 n2", "n[1-3]"),
        ("n1", "n1"),
        ("n01 n02 n03 n7", "n[01-03,7]"),
        ("n8 n9 n10 n11", "n[8-11]"),
        ("n08 n09 n10 n11", "n[08-11]"),
        ("n099 n100 n1000", "n[099-100,1000]"),
        ("n1 n01 n001", "n[1,01,001]"),
        ("n1 n01 n2 n02", "n[1-2,01-02]"),
        ("b a c", "a,b,c"),
        ("a2 a a1", "a,a[1-2]"),
        ("m2-ib0 m1-ib1 m1-ib0", "m1-ib[0-1],m2-ib0"),
        ("n1a n2a", "n1a,n2a"),
        ("n10 n9 m1", "m1,n[9-10]"),
        ("1 2 3", "[1-3]"),
        ("n1 n1 n2", "n[1,1-2]"),
        ("n1 n3 n5", "n[1,3,5]"),
    ],
)
def test_compress(names: str, text: str) -> None:
    assert compress(names.split()) == text


@pytest.mark.parametrize(
    ("names", "text"), [("n3 n1 n2", "n[3,1-2]"), ("n1 m1 n2", "n1,m1,n2"), ("n10 n9 m1", "n[10,9],m1"), ("b a", "b,a")]
)
def test_compress_in_the_given_order(names: str, text: str) -> None:
    assert compress(names.split(), keep_order=True) == text


NAME = st.from_regex(r"[a-z_.\-]{0,3}[0-9]{0,4}(-ib[0-9]{1,2})?[a-z]?", fullmatch=True).filter(bool)
NAMES = st.lists(NAME, max_size=30) | st.lists(st.from_regex(r"n[0-9]{1,3}", fullmatch=True), max_size=60)


@STEADY
@given(NAMES)
def test_expanding_what_was_compressed_gives_the_same_names(names: list[str]) -> None:
    assert Counter(expand(compress(names))) == Counter(names)
    assert expand(compress(names, keep_order=True)) == names


@STEADY
@given(NAMES)
def test_lists_of_a_request_name_the_same(names: list[str]) -> None:
    assert set(expand_all(as_lists(names))) == set(names)


def test_lists_of_a_request_are_few_and_short() -> None:
    """A request may have 4,096 texts of 64 KiB in such a field."""
    assert as_lists(f"n{i}" for i in range(256)) == ["n[0-255]"] and as_lists([]) == []
    lists = as_lists(f"{i}{'x' * (NODE_NAME_MAX - 5)}" for i in range(10_000, 10_000 + HOSTLIST_NODES_MAX))
    assert len(lists) <= 4096 and max(map(len, lists)) <= 64 * 1024


@given(NAMES)
def test_compressing_has_one_result_for_all_orders(names: list[str]) -> None:
    assert compress(names) == compress(reversed(names)) == compress(expand(compress(names)))


@pytest.mark.parametrize(
    ("text", "written_out"),
    [("n1*2", "n1,n1"), ("n1*2,n[2-3],m*1", "n1,n1,n[2-3],m"), ("n[1-2]*2 m", "n[1-2],n[1-2],m"), ("n1,n1", "n1,n1")],
)
def test_repetitions_are_written_out(text: str, written_out: str) -> None:
    assert repeated(text) == written_out


@pytest.mark.parametrize(
    "text", ["*2", "n1*", "n1*0", "n1*x", "n1**2", "n1*-1", "n[1*2", "n1*65537", "n1*65536,n2", f"{'n' * 250}*65000"]
)
def test_repetitions_that_are_refused(text: str) -> None:
    with pytest.raises(BadValue):
        repeated(text)


def test_very_long_numbers_come_back() -> None:
    names = [f"n{10**25 + i}" for i in range(3)]
    assert expand(compress(names)) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-3",
        "n1-3]",
        "n]1[",
        "n[[1]]",
        "n[3-1]",
        "n[]",
        "n[1,,2]",
        "n[a-b]",
        "n[-3]",
        "n[3-]",
        "n[1 - 3]",
        "n[+1]",
        "n[1_0]",
        "n[０]",
        "n[1-2-3]",
        "n\0",
        "n\x1b[0m",
        "n;rm",
        "nö",
        "n/1",
        "../n",
        "n[1e3]",
        "n[0x1]",
        "n" * 254,
        "n[" + "0" * 19 + "]",
    ],
)
def test_malformed_lists_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid hostlist"):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        "n[0-4294967295]",
        "n[0-999999999999999999]",
        "n[1-300][1-300]",
        "n[1-60000],m[1-60000]",
        "a" + "[0-9]" * 40,
        "n[1-65537]",
    ],
)
def test_the_number_of_nodes_is_limited_before_expanding(text: str) -> None:
    with pytest.raises(BadValue, match=f"more than {HOSTLIST_NODES_MAX} nodes"):
        expand(text)


def test_the_length_of_a_list_is_limited() -> None:
    with pytest.raises(BadValue, match=f"the limit is {HOSTLIST_TEXT_MAX}"):
        expand("n," * HOSTLIST_TEXT_MAX)
    assert len(expand("n[1-65536]")) == HOSTLIST_NODES_MAX


@pytest.mark.skipif(shutil.which("scontrol") is None, reason="compares with Slurm where it is installed")
@pytest.mark.parametrize(
    "text", ["n[01-03,7],m[1-2]-ib[0-1]", "n[8-11]", "n[001-3]", "n[9-010]", "n1,,n2", "n[99-101]a[1,3]"]
)
def test_expand_agrees_with_slurm(text: str, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=d Nodes=n1\n")
    answer = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        env={**os.environ, "SLURM_CONF": str(conf)},
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert answer.returncode == 0
    assert answer.stdout.split() == expand(text)
