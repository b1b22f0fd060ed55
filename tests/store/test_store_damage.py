"""Values that no decoder knows, in rows that a controller reads at its start: the error names table, row and column."""

import subprocess
import sys
from pathlib import Path

import pytest
from patience import END_S
from postgres import change

from ctld.dbtool.main import main as dbtool
from ctld.runtime import exits
from ctld.store.committer import Store
from ctld.store.errors import StoreDamaged, StoreError
from tests.store.making import NOW_US, leading, make_batch, make_job, make_step, start, submitted

ROOT = Path(__file__).resolve().parents[2]
#: The bytes of `{x`, as each system writes them.
BYTES = {"sqlite": "x'7b78'", "postgresql": r"'\x7b78'::bytea"}
NO_JSON = "cannot be read: JSON is malformed: "
DAMAGES = {
    "a request": ("UPDATE job_request SET request = {bytes} WHERE request_id = 1",
                  f"table job_request, row of job_id=1, column request: {NO_JSON}"),
    "a request of a running job": ("UPDATE job_request SET request = {bytes} WHERE request_id = 2",
                                   f"table job_request, row of job_id=2 attempt=0, column request: {NO_JSON}"),
    "a reason": ("UPDATE job SET reason = 'Nonsense' WHERE job_id = 1",
                 "table job, row of job_id=1, column reason: cannot be read: unknown value 'Nonsense'"),
    "a state": ("UPDATE job SET state = 8 WHERE job_id = 2",
                "table job, row of job_id=2 attempt=0, column state: cannot be read: unknown value 8"),
    "an allocation": ("UPDATE job SET alloc = '[[1' WHERE job_id = 2",
                      "table job, row of job_id=2 attempt=0, column alloc: cannot be read: Input data was truncated"),
    "a part of an array": ("UPDATE job SET array_tasks = '1-x' WHERE job_id = 1",
                           "table job, row of job_id=1 attempt=0, column array_tasks: cannot be read: "),
    "a step's state": ("UPDATE step SET state = 77 WHERE job_id = 2",
                       "table step, row of job_id=2 attempt=0 step_id=-5, column state: cannot be read: unknown value 77"),
    "a step's parts": ("UPDATE step SET parts = '[5]' WHERE job_id = 2",
                       "table step, row of job_id=2 attempt=0 step_id=-5, column parts: cannot be read: "),
    "a step's request": ("UPDATE step SET request = {bytes} WHERE job_id = 2",
                         f"table step, row of job_id=2 attempt=0 step_id=-5, column request: {NO_JSON}"),
    "limits": ("UPDATE assoc SET limits = '{{x'", f"table assoc, row of assoc_id=2, column limits: {NO_JSON}"),
    "a QOS": ("INSERT INTO qos (name, description, priority, preempt, preempt_mode, grace_time_s, preempt_exempt_time_s, flags, "
              "usage_factor_ppm, limits) VALUES ('high', '', 1, '', '', 0, 0, '', 0, '[]x')",
              f"table qos, row of name=high, column limits: {NO_JSON}"),
    "a crontab": ("INSERT INTO crontab VALUES (7, 'ann', '', '{{', '[]', 1)",
                  "table crontab, row of uid=7, column jobs: cannot be read: Input data was truncated"),
    "a GPU": ("INSERT INTO gpu VALUES ('n1', 'GPU-1', 0, 1, '', {bytes})",
              f"table gpu, row of node=n1 uuid=GPU-1, column record: {NO_JSON}"),
    "a reservation": ("INSERT INTO reservation VALUES ('r', 4, 1, 2, 0, {bytes})",
                      "table reservation, row of name=r, column record: cannot be read: Expected `array`"),
    "a trigger": ("INSERT INTO event_trigger VALUES (3, 1, 0, 1, {bytes})",
                  f"table event_trigger, row of trigger_id=3, column record: {NO_JSON}"),
    "a change of the configuration": ("INSERT INTO amendment VALUES ('node', 'n1', 1, {bytes})",
                                      f"table amendment, row of kind=node name=n1, column record: {NO_JSON}"),
}  # fmt: skip


def with_jobs(place: str | Path) -> None:
    """A waiting job and a running one with its step."""
    store = leading(place)
    running = start(make_job(2))
    store.commit(submitted(1, [make_job(1), make_job(2)], next_id=3))
    store.commit(make_batch(2, [running], 3, steps=[make_step(running)]))
    store.close()


def loaded(place: str | Path) -> None:
    store = Store.open(place, "me")
    try:
        store.acquire_lease(NOW_US * 2)
        store.load(NOW_US * 2, 0, 0)
    finally:
        store.close()


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_the_row_and_the_column_are_named(any_store: str, damage: str, said: str) -> None:
    with_jobs(any_store)
    loaded(any_store)
    system = "postgresql" if "://" in any_store else "sqlite"
    assert change(any_store, damage.format(bytes=BYTES[system])) == 1
    with pytest.raises(StoreDamaged) as found:
        loaded(any_store)
    text = str(found.value)
    assert text.startswith("database ") and f": {said}" in text
    assert text.endswith("run `penstock db check`, restore a backup (docs/database.md)")


def test_two_damages_of_a_row_are_one_error(any_store: str) -> None:
    with_jobs(any_store)
    change(any_store, "UPDATE job SET reason = 'Nonsense', hold = 9 WHERE job_id = 1")
    with pytest.raises(StoreDamaged, match=r"table job, row of job_id=1: cannot be read: "):
        loaded(any_store)


def test_the_check_names_it_and_the_exit_status_is_that_of_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "penstock.db"
    with_jobs(place)
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f"ClusterName=t\nSlurmctldHost=localhost\nSlurmUser=root\nStateSaveLocation={tmp_path}\n"
        "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1 Default=YES\n"
    )
    assert dbtool(["-f", str(conf), "check"]) == 0
    change(place, "UPDATE job SET reason = 'Nonsense' WHERE job_id = 1")
    assert dbtool(["-f", str(conf), "check"]) == 1
    assert "table job, row of job_id=1, column reason: cannot be read: " in capsys.readouterr().out
    change(place, "UPDATE job SET reason = 'None' WHERE job_id = 1")
    change(place, "DELETE FROM job_request WHERE request_id = 1")
    with pytest.raises(StoreError, match="job 1: its request 1 is not in the database; the database is damaged"):
        loaded(place)
    argv = [sys.executable, "-m", "cli.penstock", "ctld", "--config", str(conf)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == exits.DAMAGED and "its request 1 is not in the database" in done.stderr, done.stderr
