"""Commands of the text scenarios about limits.

limit KEY=VALUE ... account=NAME user=NAME qos=NAME    set limits as sacctmgr does (~ for a comma), made if it is not there
counts account=NAME | user=NAME in=ACCOUNT | qos=NAME  what is counted there
obstacles 1                                            what holds a job back, with its numbers
forget qos=NAME | account=NAME                         sacctmgr modify set RawUsage=0
"""

from typing import Any

from ctld.core.lifecycle.obstacles import obstacles
from ctld.core.records.accounting_rows import AccountRow
from ctld.core.records.events import AccountAction, ChangeAccounts, ChangeQos, QosAction, Tick
from ctld.core.records.qos import Qos
from penstock.values.limits import OF_ASSOC, OF_QOS, Limits, change
from tests.core.world import World


def changed(limits: Limits, keys: dict[str, str], names: dict[str, Any]) -> Limits:
    """The limits after these changes, by the keywords of sacctmgr; `~` for a comma in a value."""
    for key, text in keys.items():
        limits = change(limits, names[key.lower()], text.replace("~", ","))
    return limits


def set_limits(world: World, where: dict[str, str], keys: dict[str, str]) -> None:
    """Of a QOS, of a user in an account, of an account."""
    state = world.core.state
    if "qos" in where:
        other = {name: value for name, value in keys.items() if name.lower() not in OF_QOS}
        qos = state.qos.get(where["qos"], Qos(where["qos"], qos_id=len(state.qos) + 1))
        qos = qos._replace(limits=changed(qos.limits, {k: v for k, v in keys.items() if k not in other}, OF_QOS))
        if "flags" in other:
            qos = qos._replace(flags=tuple(filter(None, other["flags"].split("~"))))
        for name in ("usage_factor_ppm", "usage_threshold_ppm", "limit_factor_ppm"):
            if name in other:
                qos = qos._replace(**{str(name): int(other[name])})  # type: ignore[arg-type]  # three fields, all numbers
        state.qos[qos.name] = qos
        state.outputs.dirty_qos[qos.name] = None
        state.registry.entities_changed = True
        return
    tree, name, user = state.shares, where["account"], where.get("user", "")
    account = tree.accounts.get(name)
    if account is None:
        account = tree.add(name, "", tree.accounts[keys.pop("parent", "root")])
        tree.about[name] = state.outputs.dirty_accounts[name] = AccountRow(name, name, name)
    assoc = account
    if user:
        assoc = tree.find(name, user, where.get("partition", "")) or tree.add(name, user, account)
    keys.pop("parent", None)
    assoc.limits = changed(assoc.limits, keys, OF_ASSOC)
    assoc.made_by_itself = False
    state.outputs.dirty_assocs[assoc.assoc_id] = assoc.row()
    state.registry.entities_changed = True


class LimitCommands:
    """Mixed into the script."""

    world: World

    def limit(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """limit qos=|account=|user= KEY=VALUE: sets limits, and makes the account or user where it is missing."""
        where: dict[str, str] = {
            name: keys.pop(name) for name in ("qos", "account", "user", "partition") if name in keys
        }
        set_limits(self.world, where, keys)
        return self.world.do(Tick())

    def counts(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """counts qos=NAME | account=NAME | in=ACCOUNT user=NAME: the counters of a book."""
        state = self.world.core.state
        assert state.limits.ledger is not None
        if "qos" in keys:
            key: tuple[str | int, ...] = ("qos", keys["qos"])
        elif "user" in keys:
            key = ("assoc", state.shares.users[keys["in"], keys["user"]].assoc_id)
        else:
            key = ("assoc", state.shares.accounts[keys["account"]].assoc_id)
        book = state.limits.ledger.book(key)
        spent = book.spent.at(state.shares.decay, state.now_us) if book.spent is not None else {}
        used = {name: round(amount / 600_000, 2) for name, amount in sorted(spent.items())}
        left = {name: round(book.run_left(name, state.now_us) / 60e6, 2) for name in sorted(book.tres)}
        return [
            f"jobs {book.jobs} submitted {book.submitted} tres {dict(sorted(book.tres.items()))}",
            f"minutes left {left} used {used}",
        ]

    def forget(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """forget qos=NAME | account=NAME: sacctmgr modify ... set rawusage=0."""
        root, reset = self.world.actor("root"), {"rawusage": "0"}
        if "qos" in keys:
            return self.world.do(ChangeQos(root, QosAction.MODIFY, (keys["qos"],), reset, self.world.reply_to()))
        wish = ChangeAccounts(
            root, AccountAction.MODIFY, "account", (keys["account"],), reset, reply_to=self.world.reply_to()
        )
        return self.world.do(wish)

    def obstacles(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """obstacles JOB: all that is in its way but resources, as `penstock why` says it."""
        state = self.world.core.state
        return [f"{o.reason}: {o.text}" for o in obstacles(state, state.jobs[int(plain[0])], state.now_us)]
