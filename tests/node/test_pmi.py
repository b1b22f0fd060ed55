"""The process management interface: both wire protocols, fences over several nodes, and what does not belong there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodedaemon.mpi import pmi, pmi_wire
from nodedaemon.mpi.process_mapping import process_mapping
from penstock.values import exchange

KEY = st.text("abcdefgh-_0123456789", min_size=1, max_size=20).map(str.encode)
VALUE = st.binary(max_size=200).map(lambda raw: bytes(b for b in raw if b > 32 and b not in b"\\"))


class World:
    """All nodes of a step and the hub between them; what is said to whom travels at once."""

    def __init__(self, ranks_of_nodes: list[list[int]]) -> None:
        ntasks = sum(map(len, ranks_of_nodes))
        self.nodes = [
            pmi.PmiServer(pmi.PmiStep(b"7.0", ntasks, at, len(ranks_of_nodes), ranks))
            for at, ranks in enumerate(ranks_of_nodes)
        ]
        self.node_of = {rank: at for at, ranks in enumerate(ranks_of_nodes) for rank in ranks}
        self.hub = exchange.Hub(len(self.nodes))
        self.answers: dict[int, list[bytes]] = {rank: [] for rank in self.node_of}
        self.deliver()

    def deliver(self) -> None:
        while any(node.gathers for node in self.nodes):
            for at, node in enumerate(self.nodes):
                gathers, node.gathers = node.gathers, []
                for payload in [reply for gather in gathers for reply in self.hub.receive(at, gather)]:
                    for other in self.nodes:
                        other.exchanged(payload)
        for node in self.nodes:
            for rank, reply in node.replies:
                self.answers[rank].append(reply)
            node.replies = []

    def say(self, rank: int, data: bytes) -> None:
        self.nodes[self.node_of[rank]].received(rank, data)
        self.deliver()

    def ask(self, rank: int, data: bytes) -> bytes:
        """What came back at once; b"" when nothing did."""
        self.answers[rank] = []
        self.say(rank, data)
        return b"".join(self.answers[rank])


def framed(body: bytes) -> bytes:
    return b"%6d" % len(body) + body


def command(version: int, name: bytes, /, **words: bytes) -> bytes:
    return pmi_wire.encode(version, name, [(word.encode(), value) for word, value in words.items()])


# -- what libraries say, word by word


def test_a_pmi_1_conversation() -> None:
    world = World([[0, 1]])
    assert world.ask(0, b"cmd=init pmi_version=1 pmi_subversion=1\n") == (
        b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
    )
    assert world.ask(0, b"cmd=get_maxes\n") == b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"
    assert world.ask(0, b"cmd=get_appnum\n") == b"cmd=appnum rc=0 appnum=0\n"
    assert world.ask(0, b"cmd=get_universe_size\n") == b"cmd=universe_size rc=0 size=2\n"
    assert world.ask(0, b"cmd=get_my_kvsname\n") == b"cmd=my_kvsname rc=0 kvsname=7.0\n"
    assert world.ask(1, b"cmd=get kvsname=7.0 key=PMI_process_mapping\n") == (
        b"cmd=get_result rc=0 value=(vector,(0,1,2))\n"
    )
    assert world.ask(0, b"cmd=put kvsname=7.0 key=P0 value=a b=c\n") == b"cmd=put_result rc=0\n"
    assert world.ask(0, b"cmd=barrier_in\n") == b""
    assert world.ask(1, b"cmd=barrier_in\n") == b"cmd=barrier_out rc=0\n"
    assert world.answers[0] == [b"cmd=barrier_out rc=0\n"]
    assert world.ask(1, b"cmd=get kvsname=7.0 key=P0\n") == b"cmd=get_result rc=0 value=a b=c\n"
    assert world.ask(1, b"cmd=get kvsname=7.0 key=P9\n").startswith(b"cmd=get_result rc=-1 ")
    assert (
        world.ask(1, b"cmd=getbyidx kvsname=7.0 idx=1\n") == b"cmd=getbyidx_results rc=0 nextidx=2 key=P0 val=a b=c\n"
    )
    assert world.ask(1, b"cmd=getbyidx kvsname=7.0 idx=2\n").startswith(b"cmd=getbyidx_results rc=-2")
    assert world.ask(1, b"cmd=finalize\n") == b"cmd=finalize_ack rc=0\n"


def test_a_pmi_2_conversation() -> None:
    world = World([[0], [1]])
    assert world.ask(1, b"cmd=init pmi_version=2 pmi_subversion=0\n") == (
        b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"
    )
    body = (
        b"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=0;debugged=FALSE;"
        b"pmiverbose=FALSE;"
    )
    assert world.ask(1, framed(b"cmd=fullinit;pmijobid=7.0;pmirank=1;threaded=FALSE;")) == framed(body)
    assert world.ask(1, framed(b"cmd=job-getid;thrid=0x7f;")) == framed(
        b"cmd=job-getid-response;thrid=0x7f;rc=0;jobid=7.0;"
    )
    assert world.ask(1, framed(b"cmd=info-getjobattr;key=PMI_process_mapping;")) == framed(
        b"cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,1));"
    )
    assert b"value=2;" in world.ask(1, framed(b"cmd=info-getjobattr;key=universeSize;"))
    assert world.ask(0, framed(b"cmd=kvs-put;key=card;value=a;;b;")) == framed(b"cmd=kvs-put-response;rc=0;")
    assert world.ask(0, framed(b"cmd=kvs-fence;thrid=1;")) == b""
    assert world.ask(1, framed(b"cmd=kvs-fence;")) == framed(b"cmd=kvs-fence-response;rc=0;")
    assert world.answers[0] == [framed(b"cmd=kvs-fence-response;thrid=1;rc=0;")]
    assert world.ask(1, framed(b"cmd=kvs-get;jobid=;srcid=-1;key=card;")) == framed(
        b"cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;"
    )
    assert world.ask(1, framed(b"cmd=kvs-get;jobid=7.0;srcid=0;key=none;")) == framed(
        b"cmd=kvs-get-response;rc=0;found=FALSE;"
    )
    assert world.ask(1, framed(b"cmd=finalize;thrid=1;")) == framed(b"cmd=finalize-response;thrid=1;rc=0;")


def test_a_word_of_the_node_is_waited_for_and_stays_on_the_node() -> None:
    world = World([[0, 1], [2]])
    assert b"found=FALSE" in world.ask(0, command(2, b"info-getnodeattr", key=b"shm", wait=b"FALSE"))
    assert world.ask(0, command(2, b"info-getnodeattr", key=b"shm", wait=b"TRUE", thrid=b"5")) == b""
    world.say(1, command(2, b"info-putnodeattr", key=b"other", value=b"x"))
    assert world.answers[0] == []
    world.say(1, command(2, b"info-putnodeattr", key=b"shm", value=b"/dev/shm/1"))
    assert world.answers[0] == [
        command(2, b"info-getnodeattr-response", thrid=b"5", rc=b"0", found=b"TRUE", value=b"/dev/shm/1")
    ]
    assert b"found=FALSE" in world.ask(2, command(2, b"info-getnodeattr", key=b"shm"))


def test_what_is_not_served_is_refused_aloud() -> None:
    world = World([[0]])
    assert b"rc=-1" in world.ask(0, b"mcmd=spawn\nnprocs=2\nexecname=/bin/true\ntotspawns=1\nspawnssofar=1\nendcmd\n")
    assert b"cmd=lookup_result rc=-1" in world.ask(0, b"cmd=lookup_name service=x\n")
    assert b"cmd=spawn-response;" in world.ask(0, command(2, b"spawn", ncmds=b"1", thrid=b"3"))
    assert b"cmd=name-publish-response;rc=-1;" in world.ask(0, command(2, b"name-publish", name=b"a", port=b"b"))


def test_abort_is_told_once_and_reaches_the_owner() -> None:
    world = World([[0], [1, 2]])
    assert world.ask(2, b"cmd=abort exitcode=42 message=out_of_luck\n") == b""
    world.say(1, command(2, b"abort", isworld=b"TRUE", msg=b"x"))
    assert world.nodes[1].abort == (2, 42, b"out_of_luck") and world.nodes[0].abort is None
    assert world.hub.aborted == (1, 42, "out_of_luck")


@pytest.mark.parametrize(
    "nonsense",
    [b"hello\n", b"000009cmd", b"  12x5cmd=a;b=c;", b"999999cmd=", b"\0\0\0\0\n", b"c" * 70000, framed(b"abc")],
)
def test_nonsense_ends_the_service_of_its_task_only(nonsense: bytes) -> None:
    world = World([[0, 1]])
    world.say(0, nonsense)
    assert world.nodes[0].broken == ([] if nonsense == b"000009cmd" else [0])
    assert world.ask(1, b"cmd=get_appnum\n") == b"cmd=appnum rc=0 appnum=0\n"


def test_limits_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([[0]])
    assert b"rc=-1" in world.ask(0, command(1, b"put", key=b"k" * 64, value=b"v"))
    assert b"rc=-1" in world.ask(0, command(1, b"put", key=b"k", value=b"v" * 1024))
    assert b"rc=0" in world.ask(0, command(1, b"put", key=b"k" * 63, value=b"v" * 1023))
    monkeypatch.setattr(pmi, "KEPT_BYTES_MAX", 3000)
    puts = [command(1, b"put", key=b"more%d" % at, value=b"v" * 1000) for at in range(2)]
    assert [b"no_room" in world.ask(0, put) for put in puts] == [False, True]
    assert b"rc=0" in world.ask(0, command(1, b"put", key=b"k" * 63, value=b"w" * 1023))  # in place of the old one
    monkeypatch.setattr(pmi, "WAITING_MAX_A_TASK", 1)
    wait = command(2, b"info-getnodeattr", key=b"never", wait=b"TRUE")
    assert world.ask(0, wait) == b"" and b"rc=-1" in world.ask(0, wait)


def test_a_task_finds_its_place_in_its_environment() -> None:
    assert pmi.environment(pmi.PmiStep(b"7.0", 4, 0, 1, [0, 1, 2, 3]), 2, 9) == {
        b"PMI_FD": b"9", b"PMI_RANK": b"2", b"PMI_SIZE": b"4", b"PMI_JOBID": b"7.0"
    }  # fmt: skip


# -- everybody sees everything


@given(st.data(), st.integers(1, 4), st.integers(1, 3))
def test_after_a_fence_all_tasks_see_all_that_was_put(data: st.DataObject, nodes: int, rounds: int) -> None:
    place = data.draw(st.lists(st.integers(0, nodes - 1), min_size=nodes, max_size=12))
    place[:nodes] = range(nodes)
    world = World([[rank for rank, node in enumerate(place) if node == at] for at in range(nodes)])
    ranks = range(len(place))
    seen: dict[bytes, bytes] = {}
    for _ in range(rounds):
        puts = data.draw(st.dictionaries(KEY, st.tuples(st.sampled_from(ranks), VALUE), max_size=8))
        for key, (rank, value) in puts.items():
            version = data.draw(st.sampled_from([1, 2]))
            assert b"rc=0" in world.ask(
                rank, command(version, b"put" if version == 1 else b"kvs-put", key=key, value=value)
            )
            seen[key] = value
        order = data.draw(st.permutations(ranks))
        versions = {rank: data.draw(st.sampled_from([1, 2])) for rank in order}
        for rank in order[:-1]:
            assert (
                world.ask(rank, command(versions[rank], b"barrier_in" if versions[rank] == 1 else b"kvs-fence")) == b""
            )
        last = order[-1]
        world.say(last, command(versions[last], b"barrier_in" if versions[last] == 1 else b"kvs-fence"))
        assert all(len(world.answers[rank]) == 1 or rank == last for rank in ranks)
        for rank in ranks:
            for key, value in seen.items():
                assert world.ask(rank, command(1, b"get", key=key)) == command(1, b"get_result", rc=b"0", value=value)


@given(st.lists(st.binary(max_size=60).filter(lambda raw: b";" not in raw), min_size=1, max_size=5), st.integers(1, 9))
def test_messages_cut_anywhere_are_put_together(values: list[bytes], size: int) -> None:
    stream = b"".join(command(2, b"kvs-put", key=b"k%d" % at, value=value) for at, value in enumerate(values))
    reader, taken = pmi_wire.PmiReader(), []
    for at in range(0, len(stream), size):
        reader.feed(stream[at : at + size])
        while (message := reader.take()) is not None:
            taken.append(message.get(b"value"))
    assert taken == values


@given(st.binary(max_size=300))
def test_any_bytes_at_all_raise_nothing_else(data: bytes) -> None:
    world = World([[0]])
    world.say(0, data)


# -- the mapping


def read_mapping(text: str, size: int) -> list[int]:
    """Node of each rank, as MPI libraries read it."""
    blocks = [
        tuple(map(int, part.split(","))) for part in text.removeprefix("(vector,(").removesuffix("))").split("),(")
    ]
    nodes: list[int] = []
    while len(nodes) < size:
        for first, count, each in blocks:
            for node in range(first, first + count):
                nodes += [node] * each
    return nodes[:size]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_the_mapping_says_where_each_rank_is(place: list[int]) -> None:
    ranks = [[rank for rank, node in enumerate(place) if node == at] for at in range(6)]
    assert read_mapping(process_mapping(ranks), len(place)) == place


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([[0, 1], [2, 3]], "(vector,(0,2,2))"),
        ([[0, 2, 4], [1, 3, 5]], "(vector,(0,2,1))"),
        ([[0, 1, 2], [3, 4], [5]], "(vector,(0,1,3),(1,1,2),(2,1,1))"),
        ([[0, 1, 4, 5], [2, 3]], "(vector,(0,2,2),(0,1,2))"),
        ([[0], [0]], ""),
        ([[1], [2]], ""),
    ],
)
def test_mappings(ranks: list[list[int]], text: str) -> None:
    assert process_mapping(ranks) == text
