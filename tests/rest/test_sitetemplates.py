"""The site's templates of job scripts: what a file needs to be one, and that the folder is read again when it has changed."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from rest import sitetemplates
from rest.main import main
from rest.sitetemplates import FILE_BYTES_MAX, TEMPLATES_MAX, SiteTemplates, template_of

GOOD = "#!/bin/bash\n# Title: One GPU\n#  description :  for tests \n#SBATCH --gpus=1\nhostname\n"


def test_title_and_description_are_comment_lines():
    found = template_of("gpu.sh", GOOD.encode())
    assert (found.name, found.title, found.description, found.script) == ("gpu.sh", "One GPU", "for tests", GOOD)
    assert (
        template_of("x", b"#!/bin/sh\r\n# Title: y\r\n# Title: z\r\n").script == "#!/bin/sh\n# Title: y\n# Title: z\n"
    )
    assert template_of("x", "#!/bin/sh\n# TITLE: <b>é</b>".encode()).title == "<b>é</b>"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no #! line"), (b"hostname", "no #! line"), (b"#!/bin/sh\nhostname\n", "is a `# Title:` line"),
        (b"#!/bin/sh\n# Title:  \n", "is a `# Title:` line"), (b"#!/bin/sh\n" + b"\n" * 40 + b"# Title: late", "is a `# Title:` line"),
        (b"#!/bin/sh\n# Title: \xff", "not UTF-8: byte 19"), (b"#!/bin/sh\n# Title: x\n\0", "NUL"),
        (b"#!/bin/sh\n# Title: " + b"x" * 81, "title has more than 80"),
        (b"#!/bin/sh\n# Title: x\n# Description: " + b"x" * 401, "description has more than 400"),
    ],
)  # fmt: skip
def test_what_is_no_template(content, why):
    with pytest.raises(ValueError, match=why):
        template_of("x", content)
    with pytest.raises(ValueError, match="cannot be shown"):
        template_of("a\nb", GOOD.encode())


def test_bad_files_are_named_and_left_out_and_changes_are_seen(tmp_path: Path, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "restd")
    monkeypatch.setattr(sitetemplates, "LOOK_S", -1.0)
    (tmp_path / "b.sh").write_text(GOOD)
    (tmp_path / "a.sh").write_text(GOOD.replace("One GPU", "an a"))
    (tmp_path / "bad\nname").write_text(GOOD)
    (tmp_path / "late.txt").write_text("nothing")
    (tmp_path / "large.sh").write_text(GOOD.ljust(FILE_BYTES_MAX + 1))
    (tmp_path / ".hidden").write_text("nothing")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    templates = SiteTemplates(tmp_path)
    templates.read()

    async def titles() -> list[str]:
        return [one.title for one in await templates.all()]

    async def story() -> None:
        assert await titles() == ["an a", "One GPU"]
        said = caplog.text
        assert (
            said.count("is left out") == 3 and "template 'late.txt' is left out: its first line is no #! line" in said
        )
        assert "template 'large.sh' is left out: larger than 65536 bytes" in said
        assert r"template 'bad\nname' is left out" in said
        assert await titles() == ["an a", "One GPU"]
        assert caplog.text == said  # nothing has changed: nothing is read or said again
        (tmp_path / "a.sh").unlink()
        (tmp_path / "large.sh").unlink()
        (tmp_path / "late.txt").write_text(GOOD.replace("One GPU", "Late"))
        assert await titles() == ["Late", "One GPU"]
        for name in os.listdir(tmp_path):
            (tmp_path / name).rename(tmp_path.with_name(f"gone-{name.strip()!r}"))
        tmp_path.rmdir()
        assert await titles() == ["Late", "One GPU"]
        assert "cannot be read" in caplog.text

    asyncio.run(story())


def test_there_is_a_most(tmp_path: Path, caplog):
    for number in range(TEMPLATES_MAX + 3):
        (tmp_path / f"{number:03}").write_text(GOOD)
    templates = SiteTemplates(tmp_path)
    templates.read()
    assert len(asyncio.run(templates.all())) == TEMPLATES_MAX and caplog.text.count("there are more than") == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--web-templates", "/"], "belongs to --web"),
        (["--web", "--web-templates", "/nowhere/x"], "/nowhere/x: No such file"),
    ],
)
def test_a_folder_that_is_not_there_ends_the_start(words, text, capsys):
    pytest.importorskip("uvicorn", reason="the REST interface is not installed")
    assert main(words) == 78
    assert text in capsys.readouterr().err
