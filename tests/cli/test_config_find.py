"""Where commands find their cluster: Penstock's own variables, SLURM_CONF, the usual places; never another cluster."""

from pathlib import Path

import pytest

from penstock import cluster
from penstock.cluster import conf_path, find_cluster, own_conf_path
from penstock.clusterfile import ClusterFile, write_cluster
from penstock.errors import PenstockError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a home and nothing else."""
    for name in ("PENSTOCK_CLUSTER", "PENSTOCK_HOME", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(cluster, "CONF_PATHS", (str(tmp_path / "etc1.conf"), str(tmp_path / "etc2.conf")))
    (tmp_path / ".penstock").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "state").mkdir()
    return tmp_path


def place(path: Path, name: str) -> None:
    write_cluster(path / "cluster.json", ClusterFile(name, socket="/s"))


def conf(home: Path, name: str = "site", more: str = "") -> Path:
    path = home / "site" / "slurm.conf"
    path.write_text(f"ClusterName={name}\nStateSaveLocation={home}/state\n{more}")
    return path


def test_slurm_conf_leads_to_the_file_beside_it_or_to_the_state(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(home / ".penstock", "mine")
    monkeypatch.setenv("SLURM_CONF", str(conf(home)))
    place(home / "state", "in-state")
    assert find_cluster().cluster_name == "in-state"
    place(home / "site", "beside")
    assert find_cluster().cluster_name == "beside"


def test_slurm_conf_decides_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual places count when they are of the same cluster; a command does not go to another one."""
    place(home / ".penstock", "mine")
    monkeypatch.setenv("SLURM_CONF", str(conf(home)))
    with pytest.raises(PenstockError, match=r"no cluster file for .*slurm.conf \(ClusterName=site\)"):
        find_cluster()
    conf(home, "MINE")
    assert find_cluster().cluster_name == "mine"
    monkeypatch.setenv("PENSTOCK_HOME", str(home / "state"))
    place(home / "state", "of-home")
    assert find_cluster().cluster_name == "of-home"


def test_what_slurm_conf_includes_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = conf(home, more="Include more.conf\n")
    path.write_text("ClusterName=site\nInclude more.conf\n")
    (home / "site" / "more.conf").write_text(f"StateSaveLocation={home}/state\n")
    place(home / "state", "in-state")
    monkeypatch.setenv("SLURM_CONF", str(path))
    assert find_cluster().cluster_name == "in-state"


@pytest.mark.parametrize("missing", ["nothing.conf", "."])
def test_a_slurm_conf_that_is_not_there(home: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    place(home / ".penstock", "mine")
    monkeypatch.setenv("SLURM_CONF", str(home / missing))
    with pytest.raises(PenstockError, match="SLURM_CONF: cannot read"):
        find_cluster()


def test_a_check_without_a_name_reads_the_file_of_the_own_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_conf_path() == str(home / "etc1.conf")
    place(home / ".penstock", "mine")
    assert own_conf_path() == str(home / "etc1.conf")
    mine = home / ".penstock" / "slurm.conf"
    mine.touch()
    assert own_conf_path() == str(mine)
    monkeypatch.setenv("SLURM_CONF", str(conf(home)))
    assert own_conf_path() == str(home / "site" / "slurm.conf")
    monkeypatch.setenv("PENSTOCK_HOME", str(home / ".penstock"))
    assert own_conf_path() == str(mine)


def test_a_check_reads_the_file_that_the_state_folders_cluster_file_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never that of another cluster, if a variable names one."""
    (home / "etc1.conf").touch()
    read = home / "site" / "other.conf"
    write_cluster(home / "state" / "cluster.json", ClusterFile("c", socket="/s", conf=str(read)))
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(home / "state" / "cluster.json"))
    assert own_conf_path() == str(read)
    place(home / "state", "of an earlier release")
    assert own_conf_path() == str(home / "state" / "slurm.conf")
    (home / "state" / "cluster.json").write_text("{")
    assert own_conf_path() == str(home / "state" / "slurm.conf")
    monkeypatch.delenv("PENSTOCK_CLUSTER")
    monkeypatch.setenv("PENSTOCK_HOME", str(home / "nothing"))
    assert own_conf_path() == str(home / "nothing" / "slurm.conf")
    monkeypatch.delenv("PENSTOCK_HOME")
    assert own_conf_path() == str(home / "etc1.conf")


def test_slurms_own_place_comes_last(home: Path) -> None:
    with pytest.raises(PenstockError, match="no cluster found"):
        find_cluster()
    (home / "etc2.conf").write_text(f"ClusterName=c\nStateSaveLocation={home}/state\n")
    with pytest.raises(PenstockError, match="no cluster found"):
        find_cluster()
    assert conf_path() == str(home / "etc2.conf")
    place(home / "state", "of-slurm")
    assert find_cluster().cluster_name == "of-slurm"
    place(home / ".penstock", "mine")
    assert find_cluster().cluster_name == "mine"
