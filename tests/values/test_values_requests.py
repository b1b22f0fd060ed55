"""TRES, GRES, dependencies, features."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.dependency import DEPENDENCY_TERMS_MAX, Dependency, Term, format_dependency, parse_dependency
from penstock.values.errors import BadValue
from penstock.values.features import FEATURES_DEPTH_MAX, FEATURES_TEXT_MAX, parse_features
from penstock.values.gres import GRES_COUNT_MAX, Gres, format_gres, format_node_gres, parse_gres
from penstock.values.memory import MEM_MB_MAX
from penstock.values.tres import TRES_COUNT_MAX, TRES_ITEMS_MAX, format_tres, parse_tres

STEADY = settings(deadline=None, derandomize=True)  # the same examples on any machine, however busy

BAD_NUMBERS = ["", "-1", "+5", "1_000", "０", "0x10", "1e309", "NaN", "1.5", " 1", "1\0", str(2**63)]


def test_tres_in_slurms_order() -> None:
    amounts = parse_tres("cpu=4,mem=100M,node=1,billing=4,gres/gpu=2")
    assert amounts == {"cpu": 4, "mem": 100, "node": 1, "billing": 4, "gres/gpu": 2}
    shuffled = {"license/a": 1, "gres/gpu:a100": 2, "gres/gpu": 2, "billing": 4, "node": 1, "mem": 4096, "cpu": 4}
    assert format_tres(shuffled) == "cpu=4,mem=4G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2,license/a=1"
    assert parse_tres("") == {}
    assert format_tres({}) == ""
    assert parse_tres("CPU=1,Mem=1G") == {"cpu": 1, "mem": 1024}


TRES = st.dictionaries(
    st.sampled_from(["cpu", "node", "billing", "energy", "gres/gpu", "gres/gpu:a100", "license/x"]),
    st.integers(0, TRES_COUNT_MAX),
)


@STEADY
@given(TRES, st.integers(0, MEM_MB_MAX))
def test_tres_come_back(amounts: dict[str, int], mb: int) -> None:
    amounts["mem"] = mb
    assert parse_tres(format_tres(amounts)) == amounts


@pytest.mark.parametrize("number", BAD_NUMBERS)
@pytest.mark.parametrize("name", ["cpu", "mem", "gres/gpu"])
def test_bad_amounts_name_the_tres(name: str, number: str) -> None:
    with pytest.raises(BadValue, match=f"Invalid TRES {name}") as error:
        parse_tres(f"node=1,{name}={number}")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "text", ["cpu", "=1", "cpu=1,,mem=2", "cpu=1,", "cpu=1,cpu=2", "c u=1", "c\x1b=1", "ö=1", "n" * 200 + "=1"]
)
def test_malformed_tres(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid TRES"):
        parse_tres(text)


def test_tres_items_are_limited() -> None:
    with pytest.raises(BadValue, match=f"more than {TRES_ITEMS_MAX} items"):
        parse_tres(",".join(f"gres/x{i}=1" for i in range(100_000)))


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        ("", ()),
        ("none", ()),
        ("(null)", ()),
        ("gpu", (Gres("gpu", "", 1),)),
        ("gpu:2", (Gres("gpu", "", 2),)),
        ("gpu:a100", (Gres("gpu", "a100", 1),)),
        ("gpu:a100:2,tmp:1G", (Gres("gpu", "a100", 2), Gres("tmp", "", 1024**3))),
        ("gpu:3090:2", (Gres("gpu", "3090", 2),)),
        ("gpu:1g.5gb:3", (Gres("gpu", "1g.5gb", 3),)),
        ("gpu:1g.5gb", (Gres("gpu", "1g.5gb", 1),)),
        ("gres/gpu:2", (Gres("gpu", "", 2),)),
        ("gres:gpu:a100:2", (Gres("gpu", "a100", 2),)),
        ("gres/gpu:a100=2", (Gres("gpu", "a100", 2),)),
        ("gpu:0", ()),
        ("gpu:a:1,gpu:b:2", (Gres("gpu", "a", 1), Gres("gpu", "b", 2))),
    ],
)
def test_gres(text: str, gres: tuple[Gres, ...]) -> None:
    assert parse_gres(text) == gres
    assert parse_gres(format_gres(gres)) == gres
    assert parse_gres(format_node_gres(gres)) == gres


def test_gres_formats() -> None:
    gres = parse_gres("gpu:a100:2,shard:4")
    assert format_gres(gres) == "gres/gpu:a100:2,gres/shard:4"
    assert format_node_gres(gres) == "gpu:a100:2,shard:4"


@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_bad_gpu_counts_are_not_taken_for_types(number: str) -> None:
    for text in (f"gpu:{number}", f"gpu:a100:{number}"):
        with pytest.raises(BadValue, match="Invalid generic resource") as error:
            parse_gres(text)
        assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        ":2",
        "gpu::2",
        "gpu:a:b:c",
        "gpu:1:2:3",
        "gpu,",
        ",",
        "gpu,gpu:2",
        "g u:1",
        "gpu:a\x1b:1",
        "-x:1",
        "gpu=",
        "gpu:2=2=2",
    ],
)
def test_malformed_gres(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid generic resource"):
        parse_gres(text)


def test_gres_limits() -> None:
    with pytest.raises(BadValue, match=str(GRES_COUNT_MAX)):
        parse_gres("tmp:999999999P")
    with pytest.raises(BadValue, match="more than 64 items"):
        parse_gres("gpu," * 100_000)


@pytest.mark.parametrize(
    ("text", "dependency"),
    [
        ("", Dependency(False, ())),
        ("afterok:123", Dependency(False, (Term("afterok", 123),))),
        ("afterok:1:2,afterany:3", Dependency(False, (Term("afterok", 1), Term("afterok", 2), Term("afterany", 3)))),
        ("afterany:1_4?afternotok:2", Dependency(True, (Term("afterany", 1, 4), Term("afternotok", 2)))),
        ("after:1+5:2", Dependency(False, (Term("after", 1, None, 300), Term("after", 2)))),
        ("AfterOK:1_*", Dependency(False, (Term("afterok", 1),))),
        ("singleton", Dependency(False, (Term("singleton"),))),
        ("aftercorr:7,singleton", Dependency(False, (Term("aftercorr", 7), Term("singleton")))),
    ],
)
def test_dependencies(text: str, dependency: Dependency) -> None:
    assert parse_dependency(text) == dependency
    assert parse_dependency(format_dependency(dependency)) == dependency


def test_dependency_format() -> None:
    assert (
        format_dependency(parse_dependency("afterok:1:2,after:3+5,singleton"))
        == "afterok:1,afterok:2,after:3+5,singleton"
    )
    assert format_dependency(parse_dependency("afterok:1?afterany:2_7")) == "afterok:1?afterany:2_7"


@pytest.mark.parametrize(
    "text",
    [
        "afterok",
        "afterok:",
        "afterok:1:",
        "afterok:0",
        "afterok:-1",
        "afterok:x",
        "afterok:1+5",
        "after:1+",
        "after:1+-5",
        "after:1+1e309",
        "after:1+99999999",
        "x:1",
        "123",
        "singleton:1",
        ",",
        "afterok:1,",
        "afterok:1,,afterok:2",
        "afterok:1,afterok:2?afterok:3",
        "afterok:1_",
        "afterok:1_-1",
        "afterok:1_2_3",
        f"afterok:{2**63}",
        "afterok:1_000 ",
        "afterok:１",
        "afterok:1\0",
        "afterok: 1",
    ],
)
def test_bad_dependencies(text: str) -> None:
    with pytest.raises(BadValue, match=r"^Invalid .*dependency") as error:
        parse_dependency(text)
    assert str(error.value).isprintable()


def test_dependency_terms_are_limited() -> None:
    with pytest.raises(BadValue, match=f"more than {DEPENDENCY_TERMS_MAX} terms"):
        parse_dependency("afterok" + ":1" * (DEPENDENCY_TERMS_MAX + 1))
    with pytest.raises(BadValue, match="the limit is"):
        parse_dependency("afterok" + ":1" * 10**6)


@pytest.mark.parametrize(
    ("text", "node", "matches"),
    [
        ("", "", True),
        ("a", "a b", True),
        ("a", "b", False),
        ("a&b", "a b", True),
        ("a&b", "a", False),
        ("a,b", "a", False),
        ("a|b", "b", True),
        ("a|b&c", "a", False),  # left to right: (a|b)&c
        ("a&b|c", "c", True),
        ("a|(b&c)", "a", True),
        ("(a|b)&(c|d)", "b d", True),
        ("(a|b)&(c|d)", "a b", False),
        ("[a|b]", "b", True),
        ("[a|b]", "c", False),
        ("a*2&b*4", "a b", True),
        ("[(a&b)|c]*2", "c", True),
    ],
)
def test_features_on_one_node(text: str, node: str, matches: bool) -> None:
    assert parse_features(text).matches(frozenset(node.split())) is matches


def test_feature_expressions_keep_what_is_about_several_nodes() -> None:
    xor = parse_features("[rack1|rack2|rack3]")
    assert (xor.kind, len(xor.args), xor.names()) == ("xor", 3, frozenset({"rack1", "rack2", "rack3"}))
    both = parse_features("a*2&b*4")
    assert (both.kind, [arg.kind for arg in both.args], [arg.count for arg in both.args]) == (
        "and",
        ["count", "count"],
        [2, 4],
    )
    assert len(parse_features("a&b&c&d").args) == 4
    assert hash(parse_features("(a|b)&c")) == hash(parse_features("(a|b)&c"))


@pytest.mark.parametrize(
    "text",
    [
        "a&",
        "&a",
        "a&&b",
        "(a",
        "a)",
        "[a",
        "[a)",
        "()",
        "[]",
        "a b",
        "!a",
        "a*",
        "a*0",
        "a*x",
        "a*-1",
        "a*２",
        "a*1e309",
        "a\0",
        "ö",
        "a\n",
        "a(b)",
        "a*99999999",
    ],
)
def test_bad_features(text: str) -> None:
    with pytest.raises(BadValue, match=r"^Invalid ") as error:
        parse_features(text)
    assert str(error.value).isprintable()


def test_feature_limits() -> None:
    with pytest.raises(BadValue, match=f"more than {FEATURES_DEPTH_MAX} levels"):
        parse_features("(" * 1000 + "a" + ")" * 1000)
    with pytest.raises(BadValue, match=f"the limit is {FEATURES_TEXT_MAX}"):
        parse_features("a&" * 10**6 + "a")
