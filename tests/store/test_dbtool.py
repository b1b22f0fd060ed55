"""`penstock db` on real databases of both systems, beside a store that leads."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from postgres import change, rows
from sqlalchemy import create_engine, text

from accounting.database import database_url, read_engine
from ctld.dbtool.backup import pg_dump
from ctld.dbtool.check import INVARIANTS
from ctld.dbtool.main import main
from ctld.store import migrate
from ctld.store.dialect import one_moment
from ctld.store.schema import ENDED_FROM
from penstock.clusterfile import ClusterFile, write_cluster
from penstock.values.states import JobState
from tests.store.making import NOW_US, end, leading, make_batch, make_job, make_step, start, submitted


@pytest.fixture
def conf(tmp_path: Path, any_store: str) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_text(
        f"ClusterName=t\nSlurmctldHost=localhost\nSlurmUser=root\nStateSaveLocation={tmp_path}\n"
        f"PenstockDatabaseUrl={any_store}\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1 Default=YES\n"
    )
    return path


def life(place: str):
    """A job that has ended, one that runs; the store goes on leading."""
    store = leading(place)
    done, runs = start(make_job(1)), start(make_job(2))
    store.commit(submitted(1, [make_job(1), make_job(2)]))
    store.commit(make_batch(2, [done, runs], next_id=3, steps=[make_step(done), make_step(runs)]))
    over = make_step(done, state=JobState.COMPLETED, end_at_us=NOW_US + 2_000_000)
    store.commit(make_batch(3, [end(done)], next_id=3, steps=[over]))
    return store


def test_16_a_private_cluster_is_found_without_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the other commands find it: by PENSTOCK_HOME."""
    home = tmp_path / "home"
    home.mkdir()
    life(str(tmp_path / "penstock.db")).close()
    text = (
        f"ClusterName=t\nSlurmctldHost=localhost\nStateSaveLocation={tmp_path}\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    )
    (home / "slurm.conf").write_text(text)
    write_cluster(home / "cluster.json", ClusterFile("t", "localhost", local={"home": str(home)}))
    for name in ("SLURM_CONF", "PENSTOCK_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_HOME", str(home))
    assert main(["check"]) == 0
    assert "2 records of jobs" in capsys.readouterr().out


def test_check_finds_nothing_and_then_what_is_wrong(
    conf: Path, any_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ENDED_FROM == 10  # it is written out in the questions
    store = life(any_store)
    assert main(["-f", str(conf), "check"]) == 0
    assert capsys.readouterr().out == f"no problem found: schema {migrate.REVISIONS[-1]}, 2 records of jobs\n"
    change(any_store, "DELETE FROM job_request WHERE request_id = 1")
    change(any_store, "UPDATE meta SET next_job_id = 2")
    change(any_store, "INSERT INTO assoc_usage (assoc_id, usage, at_us) VALUES (77, 1, 1)")
    change(any_store, "UPDATE step SET state = 1 WHERE job_id = 1")
    change(any_store, "DROP INDEX job_name")
    assert main(["-f", str(conf), "check"]) == 1
    said = capsys.readouterr().out
    for words in (
        "jobs have no request: 1 rows, for example 1",
        "a number that has not been assigned: 1 rows, for example 2",
        "usage is of an association that is not known: 1 rows, for example 77",
        "jobs that have ended have live steps: 1 rows, for example 1",
        "the schema differs: add_index",
    ):
        assert words in said
    assert len(said.splitlines()) == 5
    store.close()


def test_every_invariant_holds_in_an_empty_database(any_store: str) -> None:
    leading(any_store).close()
    for words, question in INVARIANTS:
        assert rows(any_store, question) == [], words


def test_migrate_says_from_and_to_and_not_while_a_controller_leads(
    tmp_path: Path, any_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    last, before = migrate.REVISIONS[-1], migrate.REVISIONS[-2]
    engine = create_engine(database_url(any_database))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrate.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, before)
    engine.dispose()
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f"ClusterName=t\nSlurmctldHost=localhost\nSlurmUser=root\nStateSaveLocation={tmp_path}\n"
        f"PenstockDatabaseUrl={any_database}\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1 Default=YES\n"
    )
    change(any_database, f"UPDATE meta SET holder = 'host1:/state', expires_at_us = {2**60}")
    assert main(["-f", str(conf), "migrate", "--look"]) == 1
    assert capsys.readouterr().out == f"schema {before} would become {last}; host1:/state leads, stop it first\n"
    assert main(["-f", str(conf), "migrate"]) == 75
    assert "host1:/state leads; stop the controller first" in capsys.readouterr().err
    assert rows(any_database, "SELECT version_num FROM alembic_version") == [(before,)]
    change(any_database, "UPDATE meta SET expires_at_us = 0")
    assert main(["-f", str(conf), "migrate"]) == 0
    assert capsys.readouterr().out == f"schema {before} became {last}\n"
    for words in (["migrate"], ["migrate", "--look"]):
        assert main(["-f", str(conf), *words]) == 0
        assert capsys.readouterr().out == f"schema {last} is up to date\n"


def test_backup_beside_a_leader_is_a_database_again(
    conf: Path, tmp_path: Path, any_store: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    store = life(any_store)
    file = tmp_path / "copy"
    assert main(["-f", str(conf), "backup", str(file)]) == 0
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_size > 10_000
    assert main(["-f", str(conf), "backup", str(file)]) == 78
    assert "exists already; nothing was written" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir() if "copy" in p.name) == ["copy"]
    store.commit(submitted(4, [make_job(3)]))
    store.close()
    if "://" in any_store:
        restored = request.getfixturevalue("postgresql").new_database()
        tool = shutil.which("pg_restore") or str(Path(pg_dump() or "").with_name("pg_restore"))
        url = database_url(restored).set(drivername="postgresql").render_as_string()
        subprocess.run([tool, "--no-owner", "--dbname", url, str(file)], check=True)
    else:
        restored = str(file)
    again = leading(restored, "another", NOW_US + 10**9)
    assert [job.job_id for job in again.load(NOW_US, NOW_US, 0).jobs] == [1, 2]
    again.close()


def test_export(conf: Path, tmp_path: Path, any_store: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = life(any_store)
    change(any_store, "INSERT INTO usage_key VALUES (1, 5, 'physics', 'ann', 1001, 'debug', '', 'normal')")
    change(any_store, "INSERT INTO usage_hour VALUES (1699999200000000, 1, 1, 3600, 0)")
    assert main(["-f", str(conf), "export", str(tmp_path / "out")]) == 0
    assert "jobs.csv 2\nsteps.csv 2\n" in capsys.readouterr().out
    with open(tmp_path / "out" / "jobs.csv", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["job_id"], first["state"], first["submit_at"]) == ("1", "COMPLETED", "2023-11-14T22:13:20Z")
    assert (second["state"], second["end_at"], second["user_name"]) == ("RUNNING", "", "ann")
    assert (tmp_path / "out" / "jobs.csv").stat().st_mode & 0o777 == 0o600
    assert main(["-f", str(conf), "export", str(tmp_path / "out")]) == 78
    assert "File exists" in capsys.readouterr().err

    words = ["-f", str(conf), "export", "--format", "jsonl", "--since", "2024-01-01", str(tmp_path / "new")]
    assert main(words) == 0
    (line,) = (tmp_path / "new" / "jobs.jsonl").read_text().splitlines()
    assert json.loads(line)["job_id"] == 2  # it has not ended
    assert (tmp_path / "new" / "usage_hour.jsonl").read_text() == ""
    assert main([*words[:5], str(tmp_path / "all")]) == 0
    (line,) = (tmp_path / "all" / "usage_hour.jsonl").read_text().splitlines()
    assert json.loads(line)["start_at"] == "2023-11-14T22:00:00Z" and json.loads(line)["account"] == "physics"
    store.close()


def test_all_that_a_check_or_an_export_reads_is_of_one_moment(any_store: str) -> None:
    leading(any_store).close()
    engine = read_engine(any_store)
    with engine.connect() as connection:
        one_moment(connection)
        question = text("SELECT next_job_id FROM meta")
        assert connection.execute(question).scalar() == 1
        change(any_store, "UPDATE meta SET next_job_id = 2")
        assert connection.execute(question).scalar() == 1
    with engine.connect() as connection:
        assert connection.execute(question).scalar() == 2
    engine.dispose()


@pytest.mark.parametrize("command", [["check"], ["migrate", "--look"], ["backup", "x"], ["export", "x"]])
def test_the_file_may_stand_before_or_behind_the_command(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one counts. It is said which file could not be read."""
    for words in (
        ["-f", "/nosuch/a", *command],
        [*command, "-f", "/nosuch/a"],
        ["-f", "/b", *command, "--config=/nosuch/a"],
    ):
        assert main(words) == 78
        assert "/nosuch/a" in capsys.readouterr().err, words


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f"ClusterName=t\nSlurmctldHost=localhost\nSlurmUser=root\nStateSaveLocation={tmp_path}\n"
        "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1 Default=YES\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "cli.penstock", "db", "-f", str(conf), "check"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 78 and done.stdout == ""
    assert done.stderr == (
        f"penstock db: error: {tmp_path}/penstock.db: there is no database yet; the controller makes it when it starts\n"
    )
    assert not (tmp_path / "penstock.db").exists()
