"""A draft of accounting's records whose changes can be rolled back.

Every write goes through `put`, `drop` and `set`, which keep the previous value. Many changes can be made one after
another, each on the result of those before. When one is refused, or the request is a dry run (check_only), `undo`
restores the state. The cost is proportional to the records changed; the tree is not copied. Consequences outside of the
records (a new ranking, licences of the cluster, jobs that may start now) are computed once, by `finish`, when no
refusal is possible any more.

`recorded` lists the changed records before and after; the audit log is written from it.

Deliberately absent: rules. Callers (accounts.py and others) have checked what is allowed, and for whom.
"""

from typing import Final, NamedTuple, Protocol, TypeVar

from ctld.core.nodes import layout
from ctld.core.queue import preemption, resolve_association
from ctld.core.queue.associations import account_of
from ctld.core.queue.priority import qos_changed
from ctld.core.queue.priority_timer import calculate_soon
from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, UsageRow, UserRow, WckeyRow
from ctld.core.records.events import Actor
from ctld.core.records.qos import Qos
from ctld.core.state.fairshare import Assoc
from ctld.core.state.spent_minutes import joined
from ctld.core.state.state import ClusterState
from penstock.values.limits import NO_LIMITS
from penstock.values.states import ACTIVE_STATES

_ABSENT: Final = object()

_Record = AccountRow | AssocRow | Qos | ResourceRow | UsageRow | UserRow | WckeyRow


class RecordChange(NamedTuple):
    """A record before and after a change. None = it did not exist before, or does not exist any more."""

    before: _Record | None
    after: _Record | None


K = TypeVar("K")
V = TypeVar("V")


class Draft:
    """A set of changes in progress. Ends with either `undo` or `finish`."""

    def __init__(self, state: ClusterState, now_us: int, actor: Actor) -> None:
        self.state = state
        self.now_us = now_us
        self.actor = actor
        self.recorded: list[RecordChange] = []
        self.touched: dict[int, Assoc] = {}  # existing associations that are new or changed
        self._undo: list[tuple[object, object, object]] = []
        self._active: ActiveJobs | None = None
        self._licenses = False

    # ---- writing -------------------------------------------------------------------------------------------------

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """Sets table[key] = value."""
        self._undo.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Deletes table[key], if it exists."""
        if key in table:
            self._undo.append((table, key, table.pop(key)))

    def set(self, record: object, name: str, value: object) -> None:
        """Sets record.name = value."""
        self._undo.append((record, name, getattr(record, name)))
        setattr(record, name, value)

    def undo(self) -> None:
        """Rolls back all changes."""
        for target, key, before in reversed(self._undo):
            if not isinstance(target, dict):
                setattr(target, str(key), before)
            elif before is _ABSENT:
                del target[key]
            else:
                target[key] = before
        self._undo = []
        self.recorded = []
        self.touched = {}
        self._active = None

    def finish(self) -> None:
        """Accepts the changes, and computes their consequences."""
        if not self.recorded:
            return
        state = self.state
        state.rules_changed()
        state.registry.entities_changed = True
        state.limits.budgets.stale = True
        state.limits.lending.stale = True
        if any(isinstance(entry.after or entry.before, Qos) for entry in self.recorded):
            preemption.update_all_classes(state)
            qos_changed(state, self.now_us)
            resolve_association.qos_changed(state)
        if self._licenses:
            layout.take_config(state, state.config, self.now_us)
        calculate_soon(state, self.now_us)
        state.changed()

    # ---- associations --------------------------------------------------------------------------------------------

    def add_assoc(self, account: str, user: str, parent: Assoc, partition: str = "") -> Assoc:
        """Adds an association, with its old number and date if it existed before. The caller has checked that none
        exists."""
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
            self.put(self.state.outputs.dirty_usage, assoc.assoc_id, None)  # its own usage is part of its account's
        assoc.partition = partition
        assoc.parent = parent
        assoc.at_us = self.now_us
        self._enter(assoc)
        self._write_assoc(assoc, None)
        return assoc

    def set_assoc(self, assoc: Assoc, **values: object) -> None:
        """Changes an existing association, after which it exists by request."""
        before = assoc.row()
        if assoc.made_by_itself:
            values["made_by_itself"] = False
            if not assoc.user_name:
                self.set(self.state.registry, "own_accounts", self.state.registry.own_accounts - 1)
        if "limits" in values:
            values["limits"] = (
                self.state.submissions.share(values["limits"]) if values["limits"] != NO_LIMITS else NO_LIMITS
            )
        for name, value in values.items():
            if getattr(assoc, name) != value:
                self.set(assoc, name, value)
        self._write_assoc(assoc, before)

    def move(self, assoc: Assoc, parent: Assoc) -> None:
        """Moves an account with its usage to another parent."""
        if assoc.parent is parent or assoc.parent is None:
            return
        before = assoc.row()
        self.drop(assoc.parent.children, assoc.assoc_id)
        self.set(assoc, "parent", parent)
        self.put(parent.children, assoc.assoc_id, assoc)
        self._write_assoc(assoc, before)

    def rename_user(self, assoc: Assoc, user: str) -> None:
        """Renames the user of an association."""
        before = assoc.row()
        self._leave(assoc)
        self.drop(self.state.shares.gone, (assoc.account, user, assoc.partition))
        self.set(assoc, "user_name", user)
        self._enter(assoc)
        self._write_assoc(assoc, before)

    def remove_assoc(self, assoc: Assoc) -> None:
        """Removes an association that has nothing below it and no jobs; its usage stays with its account."""
        tree, parent = self.state.shares, assoc.parent
        assert parent is not None and not assoc.children and not assoc.rate
        before, after = assoc.row(), assoc.row(True)
        self._advance(assoc)
        self._advance(parent)
        self.set(parent, "usage", parent.usage + assoc.usage)
        if assoc.spent is not None:
            self.set(parent, "spent", joined(parent.spent, assoc.spent, tree.decay, self.now_us))
        self.put(self.state.outputs.dirty_usage, parent.assoc_id, None)
        self._leave(assoc)
        if not assoc.user_name and assoc.made_by_itself:
            self.set(self.state.registry, "own_accounts", self.state.registry.own_accounts - 1)
        self.put(tree.gone, (assoc.account, assoc.user_name, assoc.partition), after)
        self.put(self.state.outputs.dirty_assocs, assoc.assoc_id, after)
        self.touched.pop(assoc.assoc_id, None)
        self.recorded.append(RecordChange(before, None))

    def forget_usage(self, assoc: Assoc) -> None:
        """Sets an association's own usage to zero."""
        self._advance(assoc)
        if assoc.usage or assoc.spent is not None:
            before = assoc.usage_row()
            self.set(assoc, "usage", 0)
            self._forget_spent(assoc)
            self.put(self.state.outputs.dirty_usage, assoc.assoc_id, None)
            self.recorded.append(RecordChange(before, assoc.usage_row()))

    def _forget_spent(self, assoc: Assoc) -> None:
        if assoc.spent is not None:
            self.set(assoc.spent, "amounts", {})
            self.set(assoc.spent, "at_us", self.now_us)
            if self.state.limits.ledger is not None:
                self.set(self.state.limits.ledger, "sums_due", True)

    def _advance(self, assoc: Assoc) -> None:
        tree = self.state.shares
        if self.now_us > assoc.at_us:
            usage = tree.usage_at(assoc, self.now_us)
            self.set(assoc, "usage", usage)
            self.set(assoc, "at_us", self.now_us)

    def _write_assoc(self, assoc: Assoc, before: AssocRow | None) -> None:
        after = assoc.row()
        if after != before:
            self.put(self.state.outputs.dirty_assocs, assoc.assoc_id, after)
            self.touched[assoc.assoc_id] = assoc
            self.recorded.append(RecordChange(before, after))

    def _enter(self, assoc: Assoc) -> None:
        tree, user = self.state.shares, assoc.user_name
        assert assoc.parent is not None
        self.put(assoc.parent.children, assoc.assoc_id, assoc)
        self.put(tree.by_id, assoc.assoc_id, assoc)
        self.put(*tree.index_of(assoc), assoc)
        if user:
            self.put(tree.by_user, user, (*tree.by_user.get(user, ()), assoc))

    def _leave(self, assoc: Assoc) -> None:
        tree, user = self.state.shares, assoc.user_name
        assert assoc.parent is not None
        self.drop(assoc.parent.children, assoc.assoc_id)
        self.drop(tree.by_id, assoc.assoc_id)
        self.drop(*tree.index_of(assoc))
        if user:
            left = tuple(other for other in tree.by_user[user] if other is not assoc)
            if left:
                self.put(tree.by_user, user, left)
            else:
                self.drop(tree.by_user, user)

    # ---- the other records ---------------------------------------------------------------------------------------

    def put_account(self, row: AccountRow) -> None:
        """Sets the record of an account; `deleted`: marks it deleted."""
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
        self.put(self.state.outputs.dirty_accounts, row.name, row)
        self.recorded.append(RecordChange(before, None if row.deleted else row))

    def put_user(self, row: UserRow) -> None:
        """Sets the record of a user; `deleted`: marks it deleted."""
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
        self.put(self.state.outputs.dirty_users, row.name, row)
        self.recorded.append(RecordChange(before, None if row.deleted else row))

    def put_wckey(self, row: WckeyRow) -> None:
        """Sets a wckey of a user; `deleted`: marks it deleted."""
        table = self.state.shares.wckeys
        before = table.get((row.name, row.user_name))
        if before == row:
            return
        self.put(table, (row.name, row.user_name), row)
        self.put(self.state.registry.dirty_wckeys, row.wckey_id, row)
        self.recorded.append(RecordChange(_there(before), _there(row)))

    def put_resource(self, row: ResourceRow) -> None:
        """Sets the licences of a server; `deleted`: marks them deleted."""
        table = self.state.registry.resources
        before = table.get(row.key)
        if before == row:
            return
        self.put(table, row.key, row)
        self.put(self.state.registry.dirty_resources, row.key, row)
        self._licenses = True
        self.recorded.append(RecordChange(_there(before), _there(row)))

    def put_qos(self, record: Qos) -> None:
        """Sets a QOS; `deleted`: no job may ask for it any more."""
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
        self.put(state.outputs.dirty_qos, record.name, None)
        self.recorded.append(RecordChange(before, None if record.deleted else record))

    def forget_qos_usage(self, record: Qos) -> None:
        """Sets the usage of a QOS to zero (limits/ledger.py)."""
        ledger = self.state.limits.ledger
        book = ledger.books.get(("qos", record.name)) if ledger is not None else None
        if ledger is not None and book is not None and book.spent is not None:
            self.set(book.spent, "amounts", {})
            self.set(book.spent, "at_us", self.now_us)
            self.put(self.state.outputs.dirty_qos_usage, record.name, None)
            self.put(ledger.freed, book.key, None)  # jobs that wait for it are checked again
        self.recorded.append(RecordChange(record, record))

    # ---- jobs ----------------------------------------------------------------------------------------------------

    @property
    def active(self) -> "ActiveJobs":
        """Index of the jobs that have not ended, built once however many changes ask."""
        if self._active is None:
            self._active = ActiveJobs(self.state)
        return self._active


class _Kept(Protocol):
    @property
    def deleted(self) -> bool: ...


R = TypeVar("R", bound=_Kept)


def _there(row: R | None) -> R | None:
    return None if row is None or row.deleted else row


class ActiveJobs:
    """Index of active jobs: one example job for each value that they have."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._of_user: dict[tuple[str, str], dict[str, int]] = {}  # (account, user) -> partition -> job id
        self._held: dict[int, int] = {}  # association that is charged for a job, or with which it was submitted
        self.of_qos: dict[str, int] = {}
        self.of_name: dict[str, int] = {}
        self.of_license: dict[str, int] = {}
        self.of_account: dict[str, int] = {}  # by the account that the job names, whether that exists or not
        for job in state.jobs.records():
            if job.state not in ACTIVE_STATES:
                continue
            account = account_of(state, job)
            self.of_account.setdefault(account, job.job_id)
            if account not in state.shares.accounts:
                account = state.config.penstock_default_account.lower()
            self._of_user.setdefault((account, job.user_name), {}).setdefault(job.partition, job.job_id)
            self._held.setdefault(state.limits.charged.get(job.job_id, (job.assoc_id, 0))[0], job.job_id)
            self.of_qos.setdefault(job.request.qos, job.job_id)
            self.of_name.setdefault(job.user_name, job.job_id)
            if job.request.licenses:
                for word in job.request.licenses.replace(";", ",").split(","):
                    self.of_license.setdefault(word.strip().replace("=", ":").partition(":")[0], job.job_id)

    def of_assoc(self, assoc: Assoc) -> int:
        """Returns a job that belongs to the association itself; 0 = none."""
        if assoc.assoc_id in self._held:
            return self._held[assoc.assoc_id]
        found = self._of_user.get((assoc.account, assoc.user_name), {})
        if assoc.partition:
            return found.get(assoc.partition, 0)
        own = self._state.shares.in_partition
        return next((j for p, j in found.items() if (assoc.account, assoc.user_name, p) not in own), 0)
