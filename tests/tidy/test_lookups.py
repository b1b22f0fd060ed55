"""Names are looked up in the system's databases (NSS) and in DNS in known places only, after a check of their length and grammar.

A module of NSS may abort the process that asks for a name of megabytes, and a name server may hang.
"""

import ast

import tidytree as tree

LOOKUPS = frozenset(
    (
        *("getpwnam", "getgrnam", "getspnam", "getgrouplist", "initgroups"),
        *("getaddrinfo", "gethostbyname", "gethostbyname_ex", "getnameinfo", "gethostbyaddr", "getfqdn"),
        *("create_connection", "open_connection"),
    )
)
#: file -> why what it looks up is short
PLACES = {
    "ctld/runtime/lookuphelper.py": "the process that may be ended; its names are checked by lookups.py",
    "cli/base/users.py": "checks the grammar",
    "nodedaemon/adopt.py": "checks the grammar",
    "pamd/attempt.py": "checks the grammar before, in the daemon",
    "pamd/main.py": "the name of the REST daemon's user, of slurm.conf",
    "penstock/config/shown.py": "checks the grammar",
    "nodedaemon/stepd/task.py": "the name of a uid",
    "nodedaemon/stepd/account.py": "the name of a uid",
    "nodedaemon/daemon/launcher.py": "the name of a uid",
    "cli/control/ctladmin.py": "the name of a uid",
    "cli/base/userfile.py": "the name of an entry",
    "nodedaemon/daemon/link.py": "the controller's address, of the command line",
    "cli/steps/request.py": "the controller's address, of the cluster file",
    "cli/steps/streamclient.py": "a node's address, of slurm.conf",
    "rest/interactive/tunnel.py": "a node's address, of slurm.conf",
    "nodedaemon/session/__main__.py": "none: a descriptor",
    "penstock/transport.py": "the controller's address, of the cluster file",
    "penstock/security/join.py": "the controller's address, of the command line",
}


def test_names_are_looked_up_in_known_places() -> None:
    found = {
        tree.name_of(path)
        for path in tree.sources()
        for node in tree.nodes_of(tree.tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKUPS
    }
    assert found == set(PLACES)
