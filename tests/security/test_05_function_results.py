"""Item 5, for functions as jobs: a result is written through no link and read from nobody else's file.

Found: in a working directory that others write to, another user could make the folder of the results first, and a link in it by
the name in the job's command line: the job then wrote over the file of its user that the link leads to, and the submitter
took what the other user had written for the result. Anything but an object ended the thread that all futures wait for.
"""

import json
import os
import pwd
from pathlib import Path

import pytest

from sdk.errors import InvalidRequest
from sdk.functioncall import FunctionFailed, call_of, main, read_result

NOBODY = pwd.getpwnam("nobody")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
ARGUMENTS = json.dumps([[[3, 1, 2]], {}])


def run(path: Path) -> int:
    return main(["builtins:sorted", str(path), ARGUMENTS])


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_05_a_folder_that_others_can_change_takes_no_result(tmp_path: Path, mode: int) -> None:
    kept = tmp_path / "kept"
    kept.write_text("the user's")
    folder = tmp_path / "results"
    folder.mkdir()
    folder.chmod(mode)
    (folder / f"one.json.{os.getpid()}").symlink_to(kept)
    with pytest.raises(PermissionError, match="others can write to it"):
        run(folder / "one.json")
    assert kept.read_text() == "the user's" and not (folder / "one.json").exists()


def test_05_nor_does_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="results"):
        run(tmp_path / "results" / "one.json")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_05_a_link_in_the_users_own_folder_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("the user's")
    folder = tmp_path / "results"
    folder.mkdir(mode=0o700)
    (folder / f"one.json.{os.getpid()}").symlink_to(kept)
    with pytest.raises(FileExistsError):
        run(folder / "one.json")
    (folder / "two.json").symlink_to(kept)
    assert run(folder / "two.json") == 0
    assert read_result(str(folder / "two.json")) == [1, 2, 3]
    assert (folder / "two.json").stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == "the user's"


@pytest.mark.root
@ROOT_ONLY
def test_05_the_folder_and_the_file_of_another_user(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    with pytest.raises(PermissionError, match="another user's"):
        run(folder / "one.json")
    (folder / "one.json").write_text('{"result": "forged"}')
    os.chown(folder / "one.json", NOBODY.pw_uid, NOBODY.pw_gid)
    with pytest.raises(FunctionFailed, match="cannot be read: it is another user's, or no file"):
        read_result(str(folder / "one.json"))


def test_05_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").write_text('{"result": 1}')
    for name in ("fifo", "link", "."):
        with pytest.raises(FunctionFailed, match="cannot be read"):
            read_result(str(tmp_path / name))


@pytest.mark.parametrize(
    "text", ["7", "[]", '"error"', "null", "{}", "[" * 100_000, '{"result":' + "[" * 100_000, "\xff", "1" * 10_000, ""]
)
def test_05_what_is_no_result_is_an_error_of_its_future(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.json").write_text(text, encoding="latin-1")
    with pytest.raises(FunctionFailed, match="is no result of a function"):
        read_result(str(tmp_path / "one.json"))


def test_05_an_error_is_text(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"error": {"a": 1}, "traceback": [2]}')
    with pytest.raises(FunctionFailed) as caught:
        read_result(str(tmp_path / "one.json"))
    assert (caught.value.text, caught.value.detail) == ("{'a': 1}", "[2]")


def test_05_arguments_nested_too_deep_are_refused(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidRequest, match="are not JSON"):
        call_of(os.path.join, (deep,), {})
