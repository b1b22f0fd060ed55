"""The web interface shows a job's texts as text: nothing there makes HTML of a string (issue 14, number 7)."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "web" / "src"
#: The framework's own way around its escaping, and the browser's.
RAW = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function\(|srcdoc", re.IGNORECASE
)


def test_nothing_makes_html_of_a_string() -> None:
    files = [path for path in SOURCES.rglob("*") if path.suffix in (".ts", ".tsx", ".html")]
    assert len(files) > 20
    assert [path.name for path in files if RAW.search(path.read_text())] == []


@pytest.mark.parametrize(
    "text", ["<p dangerouslySetInnerHTML={{ __html: job.name }} />", "node.innerHTML = name", "eval(text)"]
)
def test_it_would_be_found(text: str) -> None:
    assert RAW.search(text)
