"""`penstock db move`: every way between the two systems, and what is left when it does not come to its end."""

from pathlib import Path
from typing import Any

import pytest
from postgres import Server, change, dump, rows
from sqlalchemy import inspect

from ctld.dbtool import move as moving
from ctld.dbtool.main import main
from ctld.dbtool.move import move
from ctld.store import migrate
from ctld.store.dialect import write_engine
from ctld.store.errors import StoreError
from ctld.store.schema import METADATA
from penstock.values.states import JobState
from tests.store.making import NOW_US, end, leading, make_batch, make_job, make_step, start, submitted

WAYS = [("sqlite", "postgresql"), ("postgresql", "sqlite"), ("sqlite", "sqlite"), ("postgresql", "postgresql")]
LATER_US = NOW_US + 10**9


def lived(place: str) -> None:
    """A job that has ended and one that waits, with everything in their texts that a copy might stumble over."""
    store = leading(place)
    odd = make_job(1, admin_comment="tab\there \\N \\. 'quote' \u00e4\u4e2d\r\nline")
    done = start(odd)
    store.commit(submitted(1, [odd, make_job(2, array_tasks="0-9")]))
    store.commit(make_batch(2, [done], next_id=3, steps=[make_step(done)]))
    over = make_step(done, state=JobState.COMPLETED, end_at_us=NOW_US + 2_000_000)
    store.commit(make_batch(3, [end(done)], next_id=3, steps=[over]))
    store.close()
    change(place, "INSERT INTO usage_key VALUES (1, 5, 'physics', 'ann', 1001, 'debug', '', 'normal')")
    change(place, "INSERT INTO usage_hour VALUES (1699999200000000, 1, 1, 3600, 0)")
    change(place, "INSERT INTO assoc VALUES (5, 'root', 'ann', '', -1, 0, 0, 0, '', '{}', '', '', 0, '')")


def place_of(kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return str(tmp_path / f"{name}.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database(migrated=name == "from")


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_all_rows_arrive_and_a_controller_goes_on_from_there(
    way: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source, target = (place_of(kind, name, tmp_path, request) for kind, name in zip(way, ("from", "to"), strict=True))
    lived(source)
    before = dump(source)
    monkeypatch.setattr(moving, "ROWS_AT_A_TIME", 2)
    assert main(["move", source, target]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "job".ljust(20) + "2".rjust(12) in said
    assert said[-2] == f"no problem found: schema {migrate.REVISIONS[-1]}, 2 records of jobs"
    assert said[-1].startswith("moved in ")
    assert dump(target) == before == dump(source)
    engine = write_engine(target)
    made = {index["name"] for table in METADATA.tables for index in inspect(engine).get_indexes(table)}
    engine.dispose()
    assert made == {str(index.name) for table in METADATA.tables.values() for index in table.indexes}
    if way[1] == "sqlite":
        assert Path(target).stat().st_mode & 0o777 == 0o600
    store = leading(target, "next", LATER_US)
    loaded = store.load(LATER_US, 0, 0)
    assert ([job.job_id for job in loaded.jobs], loaded.next_job_id) == ([2], 3)
    store.commit(submitted(1, [make_job(3)]))
    store.close()
    (last,) = rows(target, "SELECT max(history_id), count(*) FROM job_history")
    assert last[0] == last[1] == 1 + len(before["job_history"])


@pytest.mark.parametrize("way", WAYS[:2], ids="-".join)
@pytest.mark.parametrize("at", ["fill", "examine"])
def test_an_interrupted_move_leaves_nothing(
    way: tuple[str, str], at: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source, target = (place_of(kind, name, tmp_path, request) for kind, name in zip(way, ("from", "to"), strict=True))
    lived(source)
    before = dump(source)
    really = getattr(moving, at)

    def interrupted(*words: Any) -> Any:
        done = really(*words)
        if at != "fill" or words[1].name == "step":
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(moving, at, interrupted)
    assert main(["move", source, target]) == 130
    assert capsys.readouterr().err == "penstock db: error: interrupted; nothing was written\n"
    assert dump(source) == before
    if way[1] == "sqlite":
        assert [path.name for path in tmp_path.iterdir() if "to.db" in path.name] == []
    else:
        assert dump(target) == {}
    monkeypatch.undo()
    assert main(["move", source, target]) == 0


def test_what_is_refused(any_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(source: str, target: str, status: int) -> str:
        assert main(["move", source, target]) == status
        return capsys.readouterr().err

    target = str(tmp_path / "to.db")
    store = leading(any_store)
    change(any_store, f"UPDATE meta SET expires_at_us = {2**60}")
    assert "first leads; stop the controller first" in said(any_store, target, 75)
    change(any_store, "UPDATE meta SET expires_at_us = 0")
    store.close()
    change(any_store, "UPDATE alembic_version SET version_num = '0001'")
    assert "its schema is 0001, not" in said(any_store, target, 78)
    change(any_store, "UPDATE alembic_version SET version_num = '9999'")
    assert "this program cannot move it" in said(any_store, target, 78)
    change(any_store, f"UPDATE alembic_version SET version_num = '{migrate.REVISIONS[-1]}'")
    there = str(tmp_path / "there.db")
    leading(there).close()
    assert "exists already; nothing was moved" in said(any_store, there, 78)
    assert "already; nothing was moved" in said(there, any_store, 78)
    assert "gone.db: there is no such database" in said(str(tmp_path / "gone.db"), target, 78)
    assert "No such file or directory" in said(any_store, str(tmp_path / "nowhere" / "to.db"), 78)
    assert "all users can read a password" in (words := said(any_store, "postgresql://ann:secret@h/name", 78))
    assert "secret" not in words
    assert "only SQLite and PostgreSQL" in said(any_store, "mysql://h/name", 78)
    assert not Path(target).exists()


def test_a_database_of_others_is_not_moved_into(tmp_path: Path, postgresql: Server) -> None:
    source, target = str(tmp_path / "from.db"), postgresql.new_database()
    leading(source).close()
    postgresql.execute("CREATE TABLE recipes (name TEXT)", target.partition("@/")[2].partition("?")[0])
    with pytest.raises(StoreError, match=r"another program \(it has a table recipes\)"):
        list(move(source, target, LATER_US))


@pytest.mark.parametrize("way", WAYS[:2], ids="-".join)
def test_a_controller_that_led_meanwhile_undoes_the_move(
    way: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, target = (place_of(kind, name, tmp_path, request) for kind, name in zip(way, ("from", "to"), strict=True))
    lived(source)
    lines = move(source, target, LATER_US)
    next(lines)
    store = leading(source, "early", LATER_US)
    store.commit(submitted(1, [make_job(3)]))
    store.close()
    with pytest.raises(Exception, match="a controller has led meanwhile; nothing was moved"):
        list(lines)
    assert not Path(target).exists() if way[1] == "sqlite" else dump(target) == {}


def test_what_a_server_cannot_hold_is_said(
    tmp_path: Path, postgresql: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = str(tmp_path / "from.db"), postgresql.new_database()
    lived(source)
    change(source, "UPDATE job SET reason_detail = 'a' || char(0) || 'b' WHERE job_id = 2")
    assert main(["move", source, target]) == 78
    assert "cannot contain NUL" in capsys.readouterr().err
    assert dump(target) == {}


def test_problems_that_come_along_are_told_and_new_ones_undo_it(
    tmp_path: Path, postgresql: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = str(tmp_path / "from.db"), postgresql.new_database()
    lived(source)
    change(source, "DELETE FROM job_request WHERE request_id = 1")
    monkeypatch.setattr(moving, "finish", lambda connection: None)  # no indexes
    assert main(["move", source, target]) == 78
    said = capsys.readouterr().err
    assert "nothing was moved" in said and "the schema differs" in said and "no request" not in said
    monkeypatch.undo()
    assert main(["move", source, target]) == 0
    assert "the check finds the same in both:\njobs have no request: 1 rows, for example 1\n" in capsys.readouterr().out
