"""The committed files of the web interface: what a browser gets, how much of it, and from which sources it was built."""

import gzip
import json
import re
from pathlib import Path

from livecluster import ROOT

from rest.pages import FOLDER, load
from tools import webbuild

JAVASCRIPT_BYTES_MAX = 300_000
WEB = ROOT / "web"


def test_they_were_built_from_these_sources(monkeypatch):
    monkeypatch.chdir(ROOT)
    recorded = json.loads(Path(webbuild.MANIFEST).read_text())
    assert recorded == {"sources": webbuild.digest_of(webbuild.sources(), webbuild.WEB), "files": webbuild.built()}, (
        "make web"
    )


def test_a_changed_source_is_noticed(monkeypatch, tmp_path, capsys):
    (tmp_path / "web/src").mkdir(parents=True)
    (tmp_path / "rest/static").mkdir(parents=True)
    (tmp_path / "web/src/main.tsx").write_text("1")
    (tmp_path / "rest/static/index.html").write_text("page")
    monkeypatch.chdir(tmp_path)
    content = {"sources": webbuild.digest_of(webbuild.sources(), webbuild.WEB), "files": webbuild.built()}
    Path(webbuild.MANIFEST).write_text(json.dumps(content))
    assert webbuild.main(["--check"]) == 0
    (tmp_path / "rest/static/index.html").write_text("another")
    assert webbuild.main(["--check"]) == 1 and "has other files" in capsys.readouterr().err
    (tmp_path / "web/src/main.tsx").write_text("2")
    assert webbuild.main(["--check"]) == 1 and "run make web" in capsys.readouterr().err


def test_the_first_load_is_small():
    scripts = [one for name, one in load().items() if name.endswith(".js")]
    assert scripts and sum(len(gzip.compress(one.data, 9)) for one in scripts) <= JAVASCRIPT_BYTES_MAX


def test_the_page_has_no_code_of_its_own_and_names_no_other_host():
    """As the content security policy wants it."""
    page = load()["/"].data.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page) == []
    assert re.findall(r'(?:src|href)="(?!/)', page) == []
    for name, one in load().items():
        assert b"//# sourceMappingURL" not in one.data, name
        assert re.findall(rb"@import|url\(\s*['\"]?https?:", one.data) == [], name


def test_the_lock_names_no_registry():
    assert "resolved" not in (WEB / "package-lock.json").read_text()
    assert "omit-lockfile-registry-resolved=true" in (WEB / ".npmrc").read_text()


def test_they_are_installed():
    assert '"static/*", "static/assets/*"' in (ROOT / "setup.py").read_text()
    assert {path.parent.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()} <= {
        ".",
        "assets",
    }
