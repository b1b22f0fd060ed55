"""A change of accounting's records that can be taken back.

Everything that is written goes through `put`, `drop` and `set`, which note what was there before. So many changes can be
made one after another, each seeing what those before have done, and when one is refused, or nobody meant it
(check_only), `undo` leaves the state as it was: a change costs what it touches, and no copy of the tree is made. What a
change leads to outside of the records (a new ranking, licences of the cluster, jobs that may start now) is done once, by
`finish`, when nothing can be refused any more.

`told` is what has happened, record by record, before and after: what the audit log is written from.

Deliberately absent: rules. What may be done, and by whom, is decided before by accounts.py and its relatives.
"""

from typing import Any, Final, NamedTuple

from ctld.core import layout, preempt, standing
from ctld.core.assocs import account_of
from ctld.core.events import Actor
from ctld.core.fairshare import AccountRow, Assoc, AssocRow, ResourceRow, UsageRow, UserRow, WckeyRow
from ctld.core.model import Qos
from ctld.core.priority import calculate_soon, qos_changed
from ctld.core.spent import joined
from ctld.core.state import ClusterState
from penstock.values.limits import NO_LIMITS
from penstock.values.states import ACTIVE_STATES

_ABSENT: Final = object()

Record = AccountRow | AssocRow | Qos | ResourceRow | UsageRow | UserRow | WckeyRow


class Told(NamedTuple):
    """One record that was changed. None = it was not there, or is there no more."""

    before: Record | None
    after: Record | None


class Draft:
    """Changes as they are made. Use either `undo` or `finish` at the end."""

    def __init__(self, state: ClusterState, now_us: int, actor: Actor) -> None:
        self.state, self.now_us, self.actor = state, now_us, actor
        self.told: list[Told] = []
        self.touched: dict[int, Assoc] = {}  # associations that are there, new or changed
        self._undo: list[tuple[Any, Any, Any]] = []
        self._active: ActiveJobs | None = None
        self._licenses = False

    # ---- writing -------------------------------------------------------------------------------------------------

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """table[key] = value."""
        self._undo.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        """Del table[key], if it is there."""
        if key in table:
            self._undo.append((table, key, table.pop(key)))

    def set(self, record: Any, name: str, value: Any) -> None:
        """record.name = value."""
        self._undo.append((record, name, getattr(record, name)))
        setattr(record, name, value)

    def undo(self) -> None:
        """Leave everything as it was before the first of the changes."""
        for target, key, before in reversed(self._undo):
            if not isinstance(target, dict):
                setattr(target, key, before)
            elif before is _ABSENT:
                del target[key]
            else:
                target[key] = before
        self._undo, self.told, self.touched, self._active = [], [], {}, None

    def finish(self) -> None:
        """The changes hold: do what follows from them."""
        if not self.told:
            return
        state = self.state
        state.rules_changed()
        state.entities_changed = True
        state.budgets.stale = True
        state.lending.stale = True
        if any(isinstance(told.after or told.before, Qos) for told in self.told):
            preempt.tell_all(state)
            qos_changed(state, self.now_us)
            standing.qos_changed(state)
        if self._licenses:
            layout.take_config(state, state.config, self.now_us)
        calculate_soon(state, self.now_us)
        state.changed()

    # ---- associations --------------------------------------------------------------------------------------------

    def add_assoc(self, account: str, user: str, parent: Assoc, partition: str = "") -> Assoc:
        """A new association, with its old number and date if there was one. The caller has checked that there is none."""
        tree = self.state.shares
        gone = tree.gone.get((account, user, partition))
        if gone is None:
            assoc = Assoc(tree.next_id, account, user, None)
            self.set(tree, "next_id", tree.next_id + 1)
            assoc.created_at_us = self.now_us
        else:
            assoc = Assoc(gone.assoc_id, account, user, None)
            assoc.created_at_us = gone.created_at_us
            self.drop(tree.gone, (account, user, partition))
            self.put(self.state.dirty_usage, assoc.assoc_id, None)  # what it used is its account's
        assoc.partition, assoc.parent, assoc.at_us = partition, parent, self.now_us
        self._enter(assoc)
        self._write_assoc(assoc, None)
        return assoc

    def set_assoc(self, assoc: Assoc, **values: Any) -> None:
        """Change an association that is there. It is now somebody's will that it is."""
        before = assoc.row()
        if assoc.made_by_itself:
            values["made_by_itself"] = False
            if not assoc.user_name:
                self.set(self.state, "own_accounts", self.state.own_accounts - 1)
        if "limits" in values:
            values["limits"] = self.state.share(values["limits"]) if values["limits"] != NO_LIMITS else NO_LIMITS
        for name, value in values.items():
            if getattr(assoc, name) != value:
                self.set(assoc, name, value)
        self._write_assoc(assoc, before)

    def move(self, assoc: Assoc, parent: Assoc) -> None:
        """Give an account another parent; its usage comes along."""
        if assoc.parent is parent or assoc.parent is None:
            return
        before = assoc.row()
        self.drop(assoc.parent.children, assoc.assoc_id)
        self.set(assoc, "parent", parent)
        self.put(parent.children, assoc.assoc_id, assoc)
        self._write_assoc(assoc, before)

    def rename_user(self, assoc: Assoc, user: str) -> None:
        """Another name for the user of an association."""
        before = assoc.row()
        self._leave(assoc)
        self.drop(self.state.shares.gone, (assoc.account, user, assoc.partition))
        self.set(assoc, "user_name", user)
        self._enter(assoc)
        self._write_assoc(assoc, before)

    def remove_assoc(self, assoc: Assoc) -> None:
        """Take one out that has nothing below it and no jobs; what it used stays with its account."""
        tree, parent = self.state.shares, assoc.parent
        assert parent is not None and not assoc.children and not assoc.rate
        before, after = assoc.row(), assoc.row(True)
        self._advance(assoc)
        self._advance(parent)
        self.set(parent, "usage", parent.usage + assoc.usage)
        if assoc.spent is not None:
            self.set(parent, "spent", joined(parent.spent, assoc.spent, tree.decay, self.now_us))
        self.put(self.state.dirty_usage, parent.assoc_id, None)
        self._leave(assoc)
        if not assoc.user_name and assoc.made_by_itself:
            self.set(self.state, "own_accounts", self.state.own_accounts - 1)
        self.put(tree.gone, (assoc.account, assoc.user_name, assoc.partition), after)
        self.put(self.state.dirty_assocs, assoc.assoc_id, after)
        self.touched.pop(assoc.assoc_id, None)
        self.told.append(Told(before, None))

    def forget_usage(self, assoc: Assoc) -> None:
        """What was charged to an association itself counts no more."""
        self._advance(assoc)
        if assoc.usage or assoc.spent is not None:
            before = assoc.usage_row()
            self.set(assoc, "usage", 0)
            self._forget_spent(assoc)
            self.put(self.state.dirty_usage, assoc.assoc_id, None)
            self.told.append(Told(before, assoc.usage_row()))

    def _forget_spent(self, assoc: Assoc) -> None:
        if assoc.spent is not None:
            self.set(assoc.spent, "amounts", {})
            self.set(assoc.spent, "at_us", self.now_us)
            if self.state.ledger is not None:
                self.set(self.state.ledger, "sums_due", True)

    def _advance(self, assoc: Assoc) -> None:
        tree = self.state.shares
        if self.now_us > assoc.at_us:
            usage = tree.usage_at(assoc, self.now_us)
            self.set(assoc, "usage", usage)
            self.set(assoc, "at_us", self.now_us)

    def _write_assoc(self, assoc: Assoc, before: AssocRow | None) -> None:
        after = assoc.row()
        if after != before:
            self.put(self.state.dirty_assocs, assoc.assoc_id, after)
            self.touched[assoc.assoc_id] = assoc
            self.told.append(Told(before, after))

    def _enter(self, assoc: Assoc) -> None:
        tree, user = self.state.shares, assoc.user_name
        assert assoc.parent is not None
        self.put(assoc.parent.children, assoc.assoc_id, assoc)
        self.put(tree.by_id, assoc.assoc_id, assoc)
        self.put(*tree.index_of(assoc), assoc)
        if user:
            self.put(tree.places, user, (*tree.places.get(user, ()), assoc))

    def _leave(self, assoc: Assoc) -> None:
        tree, user = self.state.shares, assoc.user_name
        assert assoc.parent is not None
        self.drop(assoc.parent.children, assoc.assoc_id)
        self.drop(tree.by_id, assoc.assoc_id)
        self.drop(*tree.index_of(assoc))
        if user:
            left = tuple(other for other in tree.places[user] if other is not assoc)
            if left:
                self.put(tree.places, user, left)
            else:
                self.drop(tree.places, user)

    # ---- the other records ---------------------------------------------------------------------------------------

    def put_account(self, row: AccountRow) -> None:
        """What is said about an account; `deleted`: nothing any more."""
        tree = self.state.shares
        before = tree.about.get(row.name)
        if before == row:
            return
        had = before.coordinators if before is not None else ()
        if row.deleted:
            self.drop(tree.about, row.name)
            self.put(tree.gone_accounts, row.name, row)
        else:
            self.put(tree.about, row.name, row)
            self.drop(tree.gone_accounts, row.name)
        for user in dict.fromkeys((*had, *row.coordinators)):
            of = tuple(name for name in tree.coordinator_of.get(user, ()) if name != row.name)
            of = (*of, row.name) if user in row.coordinators else of
            if of:
                self.put(tree.coordinator_of, user, of)
            else:
                self.drop(tree.coordinator_of, user)
        self.put(self.state.dirty_accounts, row.name, row)
        self.told.append(Told(before, None if row.deleted else row))

    def put_user(self, row: UserRow) -> None:
        """What is said about a user; `deleted`: nothing any more."""
        tree = self.state.shares
        before = tree.people.get(row.name)
        if before == row or (before is None and row.deleted):
            return
        if row.deleted:
            self.drop(tree.people, row.name)
            self.put(tree.gone_people, row.name, row)
        else:
            self.put(tree.people, row.name, row)
            self.drop(tree.gone_people, row.name)
        if row.default_account and not row.deleted:
            self.put(tree.default_accounts, row.name, row.default_account)
        else:
            self.drop(tree.default_accounts, row.name)
        self.put(self.state.dirty_users, row.name, row)
        self.told.append(Told(before, None if row.deleted else row))

    def put_wckey(self, row: WckeyRow) -> None:
        """A wckey of a user; `deleted`: no longer his."""
        table = self.state.shares.wckeys
        before = table.get((row.name, row.user_name))
        if before == row:
            return
        self.put(table, (row.name, row.user_name), row)
        self.put(self.state.registry.dirty_wckeys, row.wckey_id, row)
        self.told.append(Told(_there(before), _there(row)))

    def put_resource(self, row: ResourceRow) -> None:
        """Licences of a server; `deleted`: none any more."""
        table = self.state.registry.resources
        before = table.get(row.key)
        if before == row:
            return
        self.put(table, row.key, row)
        self.put(self.state.registry.dirty_resources, row.key, row)
        self._licenses = True
        self.told.append(Told(_there(before), _there(row)))

    def put_qos(self, record: Qos) -> None:
        """A QOS; `deleted`: no job may ask for it any more."""
        state = self.state
        before = state.qos.get(record.name)
        if before == record:
            return
        if record.deleted:
            self.drop(state.qos, record.name)
            self.put(state.registry.qos_deleted, record.name, record)
        else:
            self.put(state.qos, record.name, record)
            self.drop(state.registry.qos_deleted, record.name)
        self.put(state.dirty_qos, record.name, None)
        self.told.append(Told(before, None if record.deleted else record))

    def forget_qos_usage(self, record: Qos) -> None:
        """What the jobs of a QOS have used counts no more (ledger.py)."""
        ledger = self.state.ledger
        book = ledger.books.get(("qos", record.name)) if ledger is not None else None
        if ledger is not None and book is not None and book.spent is not None:
            self.set(book.spent, "amounts", {})
            self.set(book.spent, "at_us", self.now_us)
            self.put(self.state.dirty_qos_usage, record.name, None)
            self.put(ledger.freed, book.key, None)  # who waits for it looks again
        self.told.append(Told(record, record))

    # ---- jobs ----------------------------------------------------------------------------------------------------

    @property
    def active(self) -> "ActiveJobs":
        """Jobs that have not ended, looked through once however many changes ask."""
        if self._active is None:
            self._active = ActiveJobs(self.state)
        return self._active


def _there(row: Any) -> Any:
    return None if row is None or row.deleted else row


class ActiveJobs:
    """One job for each thing that active jobs have."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._of_user: dict[tuple[str, str], dict[str, int]] = {}  # (account, user) -> partition -> job id
        self._held: dict[int, int] = {}  # association that is charged for a job, or that it was submitted with
        self.of_qos: dict[str, int] = {}
        self.of_name: dict[str, int] = {}
        self.of_license: dict[str, int] = {}
        for job in state.jobs.values():
            if job.state not in ACTIVE_STATES:
                continue
            account = account_of(state, job)
            if account not in state.shares.accounts:
                account = state.config.penstock_default_account.lower()
            self._of_user.setdefault((account, job.user_name), {}).setdefault(job.partition, job.job_id)
            self._held.setdefault(state.charged.get(job.job_id, (job.assoc_id, 0))[0], job.job_id)
            self.of_qos.setdefault(job.request.qos, job.job_id)
            self.of_name.setdefault(job.user_name, job.job_id)
            if job.request.licenses:
                for word in job.request.licenses.replace(";", ",").split(","):
                    self.of_license.setdefault(word.strip().replace("=", ":").partition(":")[0], job.job_id)

    def of_assoc(self, assoc: Assoc) -> int:
        """A job that belongs to the association itself; 0 = none."""
        if assoc.assoc_id in self._held:
            return self._held[assoc.assoc_id]
        found = self._of_user.get((assoc.account, assoc.user_name), {})
        if assoc.partition:
            return found.get(assoc.partition, 0)
        own = self._state.shares.in_partition
        return next((j for p, j in found.items() if (assoc.account, assoc.user_name, p) not in own), 0)
