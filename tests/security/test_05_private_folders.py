"""Item 5, for private folders: root mounts no folder over a job's /tmp that another user could have exchanged.

Found: PenstockPrivateTmp was used when it was a user's folder, or one that all can write to. Its owner could exchange the folder of
a node for one of their own, between root's look and the mount: the /tmp of other users' jobs was then the attacker's.
"""

import os
import pwd
from pathlib import Path

import pytest

from nodedaemon.stepd import namespace

NOBODY = pwd.getpwnam("nobody")
pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="private folders need root")]


@pytest.mark.parametrize(("owner", "mode"), [(NOBODY.pw_uid, 0o700), (0, 0o777), (0, 0o770), (NOBODY.pw_uid, 0o1777)])
def test_05_a_base_folder_that_others_can_change_is_refused(tmp_path: Path, owner: int, mode: int) -> None:
    base = tmp_path / "base"
    base.mkdir()
    os.chown(base, owner, 0)
    base.chmod(mode)
    with pytest.raises(namespace.NamespaceError, match=r"base is not a folder of root's that nobody else can change"):
        namespace.make(str(base), f"{base}/n1/7.0", ["/tmp"], NOBODY.pw_uid, NOBODY.pw_gid, "/var/spool")
    assert list(base.iterdir()) == []


def test_05_nor_is_a_nodes_folder_of_another_user(tmp_path: Path) -> None:
    """A base folder like /tmp: all make entries there, and exchange none of others."""
    base = tmp_path / "base"
    base.mkdir()
    base.chmod(0o1777)
    (base / "n1").mkdir()
    os.chown(base / "n1", NOBODY.pw_uid, 0)
    with pytest.raises(namespace.NamespaceError, match=r"base/n1 is not a folder of root's"):
        namespace.make(str(base), f"{base}/n1/7.0", ["/tmp"], NOBODY.pw_uid, NOBODY.pw_gid, "/var/spool")
    assert list((base / "n1").iterdir()) == []
