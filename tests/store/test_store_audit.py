"""The audit log and transactions in the database: written with the batch, found at the next start, read in pages."""

from accounting.traces import AuditQuestion, Traces, TxnQuestion
from ctld.core.records.audit import GENESIS, AuditHead, AuditRow, TxnRow, chained
from ctld.store.committer import Store
from tests.store.making import NOW_US, make_batch


def rows(number: int) -> list[AuditRow]:
    found, before = [], GENESIS
    for audit_id in range(1, number + 1):
        text = f'{{"id":{audit_id}}}'
        before = chained(before, text)
        found.append(AuditRow(audit_id, NOW_US + audit_id, "root" if audit_id % 2 else "opa", text, before))
    return found


def txn(number: int, action: str = "Add Users", accounts: str = "physics", users: str = "ann") -> TxnRow:
    return TxnRow(number, NOW_US + number, action, "root", "ann", "shares='1'", accounts, users)


def written(place, number: int, txns: list[TxnRow]):
    store = Store.open(place, "a")
    store.acquire_lease(NOW_US)
    batch = make_batch(1)
    batch.audit, batch.txns = rows(number), txns
    store.commit(batch)
    return store, Traces(place)


def test_the_head_is_found_at_the_next_start(any_store):
    store, traces = written(any_store, 3, [txn(1), txn(2)])
    traces.close()
    assert store.load(NOW_US, 0, 0).audit == AuditHead(3, rows(3)[-1].hash, 2)
    store.close()


def test_an_empty_database_begins_the_chain(any_store):
    store = Store.open(any_store, "a")
    store.acquire_lease(NOW_US)
    assert store.load(NOW_US, 0, 0).audit == AuditHead()
    store.close()


def test_records_are_read_in_pages_and_by_what_is_asked(any_store, monkeypatch):
    monkeypatch.setattr("accounting.traces.PAGE_ROWS", 4)
    store, traces = written(any_store, 10, [])

    def ids(**asked):
        return [[row.audit_id for row in page] for page in traces.audit(AuditQuestion(**asked))]

    assert ids() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert ids(from_id=6) == [[6, 7, 8, 9], [10]]
    assert ids(users=("opa",)) == [[2, 4, 6, 8], [10]]
    assert ids(since_us=NOW_US + 8, until_us=NOW_US + 10) == [[8, 9]]
    assert ids(records_max=5) == [[1, 2, 3, 4], [5]]
    assert (traces.hash_of(2), traces.hash_of(99)) == (rows(2)[-1].hash, "")
    traces.close()
    store.close()


def test_transactions_by_what_is_asked(any_store):
    made = [txn(1), txn(2, "Modify QOS", "", ""), txn(3, "Add Associations", "bio,optics", "bob")]
    store, traces = written(any_store, 1, made)

    def ids(**asked):
        return [row.txn_id for page in traces.transactions(TxnQuestion(**asked)) for row in page]

    assert ids() == [1, 2, 3]
    assert ids(actions=("add users", "modify qos")) == [1, 2]
    assert ids(accounts=("optics",)) == [3] and ids(users=("ann",)) == [1]
    assert ids(ids=(2,)) == [2] and ids(actors=("nobody",)) == [] and ids(since_us=NOW_US + 3) == [3]
    traces.close()
    store.close()
