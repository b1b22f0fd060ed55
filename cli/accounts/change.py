"""sacctmgr add, modify, delete of accounts, users, coordinators, wckeys and the cluster: what runs for which line.

The line is the request; the controller's answer says which associations it concerns.
"""

from collections.abc import Callable

from cli.accounts.add import add_accounts, add_cluster, add_coordinators, add_users, add_wckeys
from cli.accounts.context import NOTHING, ChangeContext, check_cluster, is_elsewhere, nothing
from cli.accounts.modify import modify_cluster, modify_of
from cli.accounts.qosnames import check_qos
from cli.accounts.remove import remove_cluster, remove_coordinators, remove_of, remove_wckeys
from cli.accounts.values import checked
from cli.accounts.words import USE_WHERE, ParsedLine
from penstock.values.limits import OF_ASSOC


def run_change(context: ChangeContext, verb: str, entity: str, said: ParsedLine) -> int:
    """Runs one line that changes something."""
    if verb == "add":
        check_cluster(said, context.cluster)
    elif is_elsewhere(said, context.cluster):
        return nothing(NOTHING[verb])
    use_where = "" if (verb, entity) == ("add", "user") else USE_WHERE
    changes = checked(
        said.changes, OF_ASSOC, said.words, lambda key: f"\n Unknown option: {said.words[key]}{use_where}"
    )
    check_qos(context.client, said, changes, use_where)
    return RUN[verb, entity](context, said, changes)


RUN: dict[tuple[str, str], Callable[[ChangeContext, ParsedLine, dict[str, str]], int]] = {
    ("add", "account"): add_accounts,
    ("add", "user"): add_users,
    ("add", "coordinator"): add_coordinators,
    ("add", "wckey"): add_wckeys,
    ("add", "cluster"): add_cluster,
    ("modify", "account"): modify_of("account"),
    ("modify", "user"): modify_of("user"),
    ("modify", "cluster"): modify_cluster,
    ("remove", "account"): remove_of("account"),
    ("remove", "user"): remove_of("user"),
    ("remove", "coordinator"): remove_coordinators,
    ("remove", "wckey"): remove_wckeys,
    ("remove", "cluster"): remove_cluster,
}
