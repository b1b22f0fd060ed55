"""docs/python.md: its examples run, in their order, and its tables name what there is."""

import re

import pytest
import tidytree as tree
from livecluster import LiveCluster

import penstock
from sdk.cluster import Cluster

PAGE = (tree.ROOT / "docs/python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def test_the_examples_run(live: LiveCluster, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)
    said = capsys.readouterr().out
    assert re.search(r"^COMPLETED \('n[12]',\) 1 0:00:0", said, re.M)
    assert "hello world on n" in said and "COMPLETED 42" in said
    assert "{'rate': 4, 'loss': 0.25}" in said
    assert "['0\\n', '1\\n', '2\\n']" in said
    assert len(BLOCKS) == 7 and "['COMPLETED']" in said
    assert re.search(r"^(changed to .*\n)+changed to COMPLETED$", said, re.M)
    cluster = names["cluster"]
    assert isinstance(cluster, Cluster)
    cluster.close()


def test_the_page_names_what_there_is() -> None:
    errors = re.findall(r"^\| `(\w+)`(?: \(a `\w+`\))? \| ", PAGE.partition("## Errors")[2].partition("##")[0], re.M)
    assert {"JobFailed", "RequestRefused", "Unreachable"} <= set(errors) <= set(penstock.PUBLIC)
    methods = PAGE.partition("| handle | |")[2].partition("\n\n")[0]
    for name in re.findall(r"`(\w+)\(", methods):
        assert callable(getattr(penstock.JobHandle, name)) and callable(getattr(penstock.AsyncJobHandle, name))


def test_type_checkers_see_the_same_names() -> None:
    stub = (tree.ROOT / "packaging/stubs/penstock-stubs/__init__.pyi").read_text(encoding="utf-8")
    assert set(re.findall(r"(\w+) as \1\b", stub)) == set(penstock.PUBLIC)
    for name in penstock.PUBLIC:
        assert getattr(penstock, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Clusters'"):
        getattr(penstock, "Clusters")  # noqa: B009 (a name that is not there)
