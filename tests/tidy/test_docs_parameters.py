"""docs/parameters.md is what tools/parameters.py writes, and the tables that it comes from are whole."""

import importlib.util
import re

import tidytree as tree

from penstock.config import notused
from penstock.config.keys import GLOBALS
from penstock.config.words import WORDS

TOOL = tree.ROOT / "tools" / "parameters.py"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("parameters", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), "run python tools/parameters.py"


def test_each_unused_parameter_says_what_it_does_and_why_not() -> None:
    tables = [text for name, text in vars(notused).items() if name.isupper() and not name.startswith("_")]
    lines = [line for text in tables for line in text.split("\n") if line]
    assert len(lines) > 200
    for line in lines:
        assert re.fullmatch(r"\w+(=\S+)?( \[[^\]]*\])? \| \S.* \| \S.*", line), line


def test_each_list_of_words_belongs_to_a_parameter() -> None:
    for name in WORDS:
        key = GLOBALS.find(name)
        assert key is not None and key.kind is not None
