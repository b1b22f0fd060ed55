"""The clusters that commands know, choose and compare; two live ones are in tests/e2e/test_e2e_clusters.py."""

import os
from pathlib import Path
from typing import Any

import pytest

from cli.base.clusters import named_clusters, one_cluster
from cli.base.options import OptionValues
from cli.base.run import CommandError
from cli.jobs.submitcluster import earliest, open_cluster
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile, read_cluster, write_cluster
from penstock.clusters import CLUSTERS_MAX, known_clusters, select_cluster
from penstock.errors import PenstockError, Unreachable
from penstock.v1.controller_pb2 import SubmitJobReply, SubmitJobRequest
from penstock.values.refusals import Code

US = 1_000_000


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_CLUSTER", "PENSTOCK_CLUSTERS", "PENSTOCK_HOME", "SLURM_CONF"):
        monkeypatch.setenv(name, "")  # select_cluster() sets two of them; they are undone with this


def laid(folder: Path, name: str, file: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / (file or f"{name}.json")
    write_cluster(path, ClusterFile(name, address=f"{name}:6817"))
    return path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterFile:
    """A cluster `east` that knows `west` and `north`."""
    path = laid(tmp_path, "east", "cluster.json")
    laid(tmp_path / "clusters", "west")
    laid(tmp_path / "clusters", "north", "z.json")
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(path))
    return find_cluster()


def names(found: Any) -> list[str]:
    return [one.cluster_name for one in found]


def test_the_directory_beside_the_cluster_file(own: ClusterFile, tmp_path: Path) -> None:
    folder = tmp_path / "clusters"
    laid(folder, "east", "a.json")  # the own file counts
    laid(folder, "west", "zz.json")  # the first of that name counts
    (folder / "gone.json").symlink_to(tmp_path / "nothing")
    (folder / "README").write_text("no cluster")
    laid(folder, "hidden", ".draft.json")
    known = known_clusters(own)
    assert list(known) == ["east", "north", "west"]
    assert known["east"] is own and known["west"].path == str(folder / "west.json")


def test_without_a_directory_there_is_one_cluster(tmp_path: Path) -> None:
    own = read_cluster(laid(tmp_path, "east", "cluster.json"))
    assert known_clusters(own) == {"east": own}
    assert known_clusters(ClusterFile("tux")) == {"tux": ClusterFile("tux")}


def test_a_file_that_cannot_be_used_is_an_error(own: ClusterFile, tmp_path: Path) -> None:
    (tmp_path / "clusters" / "bad.json").write_text("{}")
    with pytest.raises(PenstockError, match="bad.json: not a cluster file"):
        known_clusters(own)
    assert names(named_clusters("squeue", "east", own)) == ["east"]  # nothing else is read for the own name


def test_too_many_files(own: ClusterFile, tmp_path: Path) -> None:
    for number in range(CLUSTERS_MAX):
        laid(tmp_path / "clusters", f"c{number}")
    with pytest.raises(PenstockError, match=f"{CLUSTERS_MAX + 2} files of clusters"):
        known_clusters(own)


def test_the_variable_is_the_only_source(own: ClusterFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = laid(tmp_path, "south")
    laid(tmp_path / "more", "up")
    monkeypatch.setenv("PENSTOCK_CLUSTERS", f"{other}:{tmp_path / 'more'}:{tmp_path / 'nothing'}")
    assert list(known_clusters(own)) == ["east", "south", "up"]


def test_the_machines_directory_is_for_the_machines_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private cluster does not reach the site's; the controller's machine, where SLURM_CONF leads, does."""
    laid(tmp_path / "site", "west")
    monkeypatch.setattr("penstock.clusters.MACHINE_FOLDER", str(tmp_path / "site"))
    path = laid(tmp_path, "east", "cluster.json")
    assert list(known_clusters(read_cluster(path))) == ["east", "west"]
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(path))
    assert list(known_clusters(find_cluster())) == ["east"]


def test_the_selected_cluster_is_found_afterwards(own: ClusterFile) -> None:
    west = known_clusters(own)["west"]
    select_cluster(own, own)
    assert "PENSTOCK_CLUSTERS" not in {name for name, value in os.environ.items() if value}
    select_cluster(west, own)
    assert find_cluster() == west
    assert list(known_clusters(find_cluster())) == ["east", "north", "west"]  # and back
    select_cluster(own, west)
    assert find_cluster().cluster_name == "east"
    assert list(known_clusters(find_cluster())) == ["east", "north", "west"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, ["east"]), ("", ["east"]), ("east", ["east"]), ("EAST,east", ["east"]), ("west", ["west"]),
        ("west,east", ["west", "east"]), (" west , west", ["west"]), ("all", ["east", "north", "west"]),
        ("ALL", ["east", "north", "west"]), ("west,all", ["east", "north", "west"]),
    ],
)  # fmt: skip
def test_names(own: ClusterFile, capsys: Any, text: str | None, wanted: list[str]) -> None:
    assert names(named_clusters("squeue", text, own)) == wanted
    assert capsys.readouterr() == ("", "")


def test_unknown_names(own: ClusterFile, capsys: Any) -> None:
    assert names(named_clusters("squeue", "mars,west,venus", own)) == ["west"]
    assert capsys.readouterr().err == (
        "squeue: error: No cluster 'mars' known by database.\nsqueue: error: No cluster 'venus' known by database.\n"
    )
    with pytest.raises(CommandError, match="'mars,venus' can't be reached now, or it is an invalid entry"):
        named_clusters("squeue", "mars,venus", own)


def test_one_at_a_time(own: ClusterFile) -> None:
    assert one_cluster("sdiag", "west", own).cluster_name == "west"
    with pytest.raises(CommandError, match="Only one cluster can be used at a time with sdiag") as caught:
        one_cluster("sdiag", "west,east", own)
    assert caught.value.level == "fatal"


# ---- the earliest start


class Answers:
    """Clients by cluster: each answers a submission with a start in seconds from now, 0 = unknown, or an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **starts: Any) -> None:
        self.starts, self.asked = starts, list[str]()
        monkeypatch.setattr("penstock.client.Client.open", self._open)
        monkeypatch.setattr("cli.jobs.submitcluster.time.time", lambda: 1_000_000.0)

    def _open(self, *_: object, cluster: ClusterFile | None = None, **__: object) -> Any:
        return _Client(self, cluster or find_cluster())


class _Client:
    def __init__(self, answers: Answers, cluster: ClusterFile) -> None:
        self.answers, self.cluster = answers, cluster

    def __enter__(self) -> "_Client":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def call(self, method: str, request: SubmitJobRequest) -> SubmitJobReply:
        assert method == "SubmitJob" and request.test_only
        self.answers.asked.append(self.cluster.cluster_name)
        start = self.answers.starts[self.cluster.cluster_name]
        if isinstance(start, Exception):
            raise start
        return SubmitJobReply(job_id=1, start_at_us=start and (1_000_000 + start) * US)


REFUSED = PenstockError(Code.INVALID_PARTITION, "Invalid partition name specified")


@pytest.mark.parametrize(
    ("starts", "wanted"),
    [
        ({"west": 0, "east": 60, "north": 30}, "north"),
        ({"west": -1, "east": 60, "north": 30}, "west"),
        ({"west": -3, "east": -1, "north": -2}, "east"),  # all at once: the own one
        ({"west": -1, "east": 60, "north": -2}, "west"),  # the one named first
        ({"west": 0, "east": REFUSED, "north": 0}, "west"),
        ({"west": REFUSED, "east": Unreachable(), "north": 0}, "north"),
    ],
)
def test_the_earliest(
    own: ClusterFile, monkeypatch: pytest.MonkeyPatch, capsys: Any, starts: dict[str, Any], wanted: str
) -> None:
    answers = Answers(monkeypatch, **starts)
    found = named_clusters("sbatch", "west,east,north", own)
    assert earliest("sbatch", found, SubmitJobRequest(), own).cluster_name == wanted
    assert answers.asked == ["west", "east", "north"]
    wrong = [f"sbatch: error: Problem with submit to cluster {name}: {one.text}" for name, one in starts.items()
             if isinstance(one, PenstockError)]  # fmt: skip
    assert capsys.readouterr().err.splitlines() == wrong


def test_nowhere(own: ClusterFile, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, west=REFUSED, east=REFUSED)
    with pytest.raises(CommandError, match="Can't run on any of the specified clusters"):
        earliest("sbatch", named_clusters("sbatch", "west,east", own), SubmitJobRequest(), own)


def test_one_name_is_not_compared(own: ClusterFile, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch)
    request = SubmitJobRequest()
    assert open_cluster("sbatch", OptionValues(clusters="west"), lambda: request).cluster.cluster_name == "west"
    assert open_cluster("sbatch", OptionValues(clusters="east"), lambda: request).cluster is not None
    assert answers.asked == [] and find_cluster() == own
    open_cluster("salloc", OptionValues(clusters="west"), lambda: request, True)
    assert find_cluster().cluster_name == "west"


def test_a_repeated_request_needs_its_cluster(own: ClusterFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key is the same job on one cluster; another would run it again."""
    Answers(monkeypatch, west=-1, east=-1)
    values = OptionValues(clusters="west,east", request_key="k")
    with pytest.raises(CommandError, match="--request-key needs the name of one cluster"):
        open_cluster("sbatch", values, SubmitJobRequest)
