"""PenstockAuditFile follows the log: after a crash, a full disk and a rotation; `penstock audit` on it and on the database."""

import asyncio
import json
import os
import sqlite3

import pytest

from accounting.traces import Traces
from ctld.core.records.audit import GENESIS, AuditRow
from ctld.runtime.auditfile import POSITION, AuditFile
from ctld.store.committer import Store
from penstock.values.auditchain import chained, check, link_of
from tests.store.making import NOW_US, make_batch


class Log:
    """A table with an audit log, and a file that follows it."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "audit.json"
        self.store = Store.open(folder / "db.sqlite", "a")
        self.store.acquire_lease(NOW_US)
        self.traces = Traces(folder / "db.sqlite")
        self.rows: list[AuditRow] = []
        self.begin()

    def begin(self) -> None:
        self.file = AuditFile(self.traces, self.folder / POSITION)

    def add(self, number: int = 1) -> list[AuditRow]:
        new: list[AuditRow] = []
        for audit_id in range(len(self.rows) + 1, len(self.rows) + number + 1):
            text = f'{{"id":{audit_id}}}'
            before = (self.rows + new)[-1].hash if self.rows + new else GENESIS
            new.append(AuditRow(audit_id, NOW_US, "root", text, chained(before, text)))
        batch = make_batch(len(self.rows) + 1)
        batch.audit = new
        self.store.commit(batch)
        self.rows += new
        return new

    def write(self, rows=()) -> None:
        self.file.append(str(self.path), rows)

    def ids(self, path=None) -> list[int]:
        links = [link_of(line) for line in (path or self.path).read_text().splitlines()]
        assert all(links)
        return [link.record_id for link in links]

    def close(self) -> None:
        self.file.close()
        self.traces.close()
        self.store.close()


@pytest.fixture
def audit_log(tmp_path):
    one = Log(tmp_path)
    yield one
    one.close()


def whole(log: Log) -> bool:
    links = [link_of(line) for line in log.path.read_text().splitlines()]
    return check(links, {link.record_id for link in links}) is None


def test_it_is_private_and_appended_to(audit_log):
    audit_log.write(audit_log.add(2))
    audit_log.write(audit_log.add())
    assert audit_log.ids() == [1, 2, 3] and whole(audit_log)
    assert os.stat(audit_log.path).st_mode & 0o777 == 0o600


def test_what_was_not_written_is_caught_up_once(audit_log):
    audit_log.write(audit_log.add(2))
    audit_log.file.close()
    lost = audit_log.add(3)  # committed, and then the controller died
    audit_log.begin()
    audit_log.write()
    audit_log.write(lost)  # what comes twice is written once
    audit_log.write(audit_log.add())
    assert audit_log.ids() == [1, 2, 3, 4, 5, 6] and whole(audit_log)


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_a_line_that_a_crash_has_cut_is_completed(audit_log, cut):
    audit_log.write(audit_log.add(3))
    audit_log.file.close()
    content = audit_log.path.read_bytes()
    audit_log.path.write_bytes(content[:-cut])
    audit_log.begin()
    audit_log.write()
    assert audit_log.path.read_bytes() == content


def test_a_rotation_is_noticed(audit_log):
    audit_log.write(audit_log.add(2))
    old = audit_log.path.with_suffix(".1")
    audit_log.path.rename(old)
    audit_log.write(audit_log.add(2))
    assert (audit_log.ids(old), audit_log.ids()) == ([1, 2], [3, 4]) and whole(audit_log)


def test_a_rotation_while_the_controller_was_down(audit_log):
    audit_log.write(audit_log.add(2))
    audit_log.file.close()
    audit_log.path.rename(audit_log.path.with_suffix(".1"))
    audit_log.add()
    audit_log.begin()
    audit_log.write()
    assert audit_log.ids() == [3] and whole(audit_log)


def test_a_folder_that_cannot_be_written_to_is_told_once(audit_log, caplog):
    place, audit_log.path = audit_log.path, audit_log.folder / "no" / "audit.json"
    audit_log.write(audit_log.add())
    audit_log.write(audit_log.add())
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    audit_log.path = place
    audit_log.write(audit_log.add())
    assert audit_log.ids() == [1, 2, 3]


def test_a_link_is_not_followed(audit_log, caplog):
    target = audit_log.folder / "canary"
    audit_log.path.symlink_to(target)
    audit_log.write(audit_log.add())
    assert not target.exists() and "audit file" in caplog.text


def test_a_table_that_was_cut_is_told(audit_log, caplog):
    audit_log.write(audit_log.add(3))
    audit_log.file.close()
    with sqlite3.connect(audit_log.folder / "db.sqlite") as connection:
        connection.execute("DELETE FROM audit WHERE audit_id = 3")
    connection.close()
    audit_log.begin()
    audit_log.write()
    assert "its record 3 is not in the database: its log was cut" in caplog.text


# ---- the command -------------------------------------------------------------------------------------------------


def test_the_command_on_a_controller(tmp_path, capsys, monkeypatch):
    from cli.subcommands.audit import main
    from penstock.v1 import shares_pb2 as s
    from tests.rpc.clusterkit import OWN, Site

    site = Site(tmp_path, extra=f"PenstockAuditFile={tmp_path}/audit.json\n")
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(site.state / "cluster.json"))
    copy = tmp_path / "copy.json"

    def run(*argv: str) -> tuple[int, str]:
        status = main(list(argv))
        shown = capsys.readouterr()
        return status, shown.out + shown.err

    async def ask(*argv: str) -> tuple[int, str]:
        return await asyncio.to_thread(run, *argv)

    async def story():
        async with site.controller(), site.client() as client:
            for name in ("physics", "bio"):
                request = s.ChangeAccountsRequest(action="ADD", entity="account", names=[name])
                await client.call("ChangeAccounts", request)
            said = {"db": await ask("verify"), "file": await ask("verify", str(tmp_path / "audit.json"))}
            said["show"] = await ask("show", "--user", OWN.pw_name, "--since", "now-1hour")
            said["json"] = await ask("show", "--json")
            lines = (tmp_path / "audit.json").read_text().splitlines(keepends=True)
            for name, text in (
                ("cut", lines[:3]),
                ("edited", [lines[0], lines[1].replace('"shares":1', '"shares":9'), *lines[2:]]),
                ("junk", [*lines[:2], "junk\n", *lines[2:]]),
            ):
                copy.write_text("".join(text))
                said[name] = await ask("verify", str(copy))
            copy.write_text("".join(lines[:3]))
            said["offline"] = await ask("verify", "--offline", str(copy))
            with sqlite3.connect(site.state / "penstock.db") as connection:
                connection.execute("UPDATE audit SET record = replace(record, 'physics', 'chemics') WHERE audit_id = 2")
            connection.close()
            said["changed db"] = await ask("verify")
            said["file and changed db"] = await ask("verify", str(tmp_path / "audit.json"))
            with sqlite3.connect(site.state / "penstock.db") as connection:
                connection.execute("DELETE FROM audit WHERE audit_id > 1")
            connection.close()
            said["cut db"] = await ask("verify")
            return said

    said = asyncio.run(story())
    assert said["db"] == (0, "the audit log is whole: records 1 to 4, as the controller has written them\n")
    assert said["file"] == said["db"]
    assert said["show"][1].count("\n") == 4 and "add account  account physics" in said["show"][1]
    assert [json.loads(line)["id"] for line in said["json"][1].splitlines()] == [1, 2, 3, 4]
    assert said["cut"] == (1, "penstock audit: BROKEN: record 4 is missing at the end\n")
    assert said["edited"][0] == 1 and "record 2 (line 2) was changed" in said["edited"][1]
    assert said["junk"][0] == 1 and "line 3 is no record" in said["junk"][1]
    assert said["offline"] == (0, "the audit log is whole: records 1 to 3\n")
    assert said["changed db"][0] == 1 and "record 2 was changed" in said["changed db"][1]
    assert said["file and changed db"][0] == 0  # the hashes are still the same; the text is the file's own
    assert said["cut db"] == (1, "penstock audit: BROKEN: records 2 to 4 are missing at the end\n")
