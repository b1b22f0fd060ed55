"""sacctmgr's changes in the core: what is done, what is refused, what survives a restart."""

from ctld.core.accounts.requests import COORDINATOR_CHANGES_MAX
from ctld.core.records.accounting_rows import AccountRow
from ctld.core.records.effects import Changed
from ctld.core.records.events import AccountAction, ChangeAccounts, ChangeMany, JobSubmission
from tests.core.world import World, make_config

A = AccountAction


def make() -> World:
    world = World(make_config(nodes=1, def_mem_per_cpu_mb=1, priority_type="priority/multifactor"))
    world.register("n1")
    return world


def change(
    world: World, action: AccountAction, entity: str, *names: str, user: str = "root", accounts: tuple[str, ...] = (),
    parents: tuple[str, ...] = (), check_only: bool = False, **changes: str,
) -> str:  # fmt: skip
    reply_to = world.reply_to()
    event = ChangeAccounts(world.actor(user), action, entity, names, changes, accounts, parents, check_only, reply_to)
    line = next(line for line in world.do(event) if line)
    body = world.replies[reply_to]
    return " ".join(body.names) if isinstance(body, Changed) else line


def tree(world: World) -> list[str]:
    def lines(assoc, depth):
        yield f"{'.' * depth}{assoc.user_name or assoc.account}={assoc.shares}"
        for child in sorted(assoc.children.values(), key=lambda a: (a.user_name, a.account)):
            yield from lines(child, depth + 1)

    return list(lines(world.core.state.shares.root, 0))


def planted() -> World:
    world = make()
    assert change(world, A.ADD, "account", "Physics", "bio", fairshare="30") == "physics bio"
    assert change(world, A.ADD, "account", "optics", parent="physics", description="light") == "optics"
    assert (
        change(world, A.ADD, "user", "ann", "bob", accounts=("optics", "bio"), fairshare="2", defaultaccount="optics")
        == "ann bob"
    )
    return world


def test_a_tree_is_made_and_comes_back() -> None:
    world = planted()
    expected = ["root=1", ".bio=30", "..ann=2", "..bob=2", ".physics=30", "..optics=1", "...ann=2", "...bob=2"]
    assert tree(world) == expected
    shares = world.core.state.shares
    assert shares.default_accounts == {"ann": "optics", "bob": "optics"}
    assert shares.about["optics"] == AccountRow("optics", "light", "physics")
    world.restart()
    assert tree(world) == expected
    assert world.core.state.shares.default_accounts == {"ann": "optics", "bob": "optics"}
    assert change(world, A.ADD, "account", "physics") == ""  # nothing new
    assert change(world, A.ADD, "user", "ann", accounts=("bio",)) == ""


def test_users_change_nothing() -> None:
    world = make()
    assert change(world, A.ADD, "account", "x", user="ann").startswith("refused: Access/permission denied")
    assert tree(world) == ["root=1"]
    assert change(world, A.ADD, "account", "x", user="opa") == "x"


def test_looking_changes_nothing() -> None:
    world = planted()
    before = tree(world), dict(world.assoc_rows)
    assert change(world, A.MODIFY, "account", "bio", fairshare="5", check_only=True) == "bio"
    assert change(world, A.REMOVE, "user", "ann", check_only=True) == "ann"
    assert (tree(world), dict(world.assoc_rows)) == before


def test_modify() -> None:
    world = planted()
    assert change(world, A.MODIFY, "account", "bio", parent="physics", fairshare="parent") == "bio"
    assert change(world, A.MODIFY, "user", "ann", accounts=("bio",), fairshare="9", priority="7") == "ann"
    assert change(world, A.MODIFY, "user", "bob", defaultaccount="bio") == "bob"
    assert change(world, A.MODIFY, "account", parents=("physics",), organization="uni") == "bio optics"
    expected = ["root=1", ".physics=30", "..bio=-1", "...ann=9", "...bob=2", "..optics=1", "...ann=2", "...bob=2"]
    assert tree(world) == expected
    world.restart()
    assert tree(world) == expected
    assert world.core.state.shares.users["bio", "ann"].priority == 7
    assert world.core.state.shares.about["bio"].organization == "uni"


def test_the_default_account_is_the_first_by_name() -> None:
    world = planted()
    assert change(world, A.ADD, "user", "eve", accounts=("physics", "optics")) == "eve"
    assert world.core.state.shares.default_accounts["eve"] == "optics"


def test_an_account_moved_below_one_that_is_in_it_changes_places_with_it() -> None:
    """As in Slurm: the one below takes the other's place first. The answer has the parents that there were."""
    world = planted()
    assert change(world, A.MODIFY, "account", "physics", parent="optics") == "physics"
    expected = ["root=1", ".bio=30", "..ann=2", "..bob=2", ".optics=1", "..physics=30", "..ann=2", "..bob=2"]
    assert tree(world) == expected
    world.restart()
    assert tree(world) == expected


def test_what_is_refused() -> None:
    world = planted()
    before = tree(world)
    for line, words in (
        (change(world, A.ADD, "account", "x", parent="nope"), "This account 'nope' doesn't exist"),
        (change(world, A.ADD, "account", "a,b"), "Invalid account name"),
        (change(world, A.ADD, "user", "cid"), "Need name of account"),
        (change(world, A.ADD, "user", "cid", accounts=("nope",)), "This account 'nope' doesn't exist"),
        (change(world, A.MODIFY, "account", "physics", parent="physics"), "physics is below physics"),
        (change(world, A.MODIFY, "account", "root", fairshare="2"), "root account cannot be changed"),
        (change(world, A.MODIFY, "account", "bio", fairshare="-3"), "out of range"),
        (change(world, A.MODIFY, "account", "bio", adminlevel="none"), "adminlevel= is not supported for a account"),
        (change(world, A.MODIFY, "account", "bio", grptres="gres/gpus=3"), "there is no TRES 'gres/gpus'; known: cpu"),
        (change(world, A.MODIFY, "user", "ann", maxjobs="many"), "MaxJobs"),
        (change(world, A.MODIFY, "user", "ann", qos="gold"), "Invalid qos specification: gold"),
        (change(world, A.MODIFY, "user", "ann", defaultaccount="physics"), "not associated with account 'physics'"),
        (change(world, A.REMOVE, "account", "root"), "root account cannot be removed"),
        (change(world, A.REMOVE, "user"), "no condition given"),
    ):
        assert line.startswith("refused: ") and words in line, line
    assert tree(world) == before


def test_removing_refuses_active_jobs_and_keeps_usage() -> None:
    world = planted()
    wanted = JobSubmission(name="j", work_dir=b"/tmp", ntasks=2)
    world.submit(wanted, "ann")
    assert world.core.state.jobs[1].request.account == "optics"  # ann's default
    assert "Job(s) active" in change(world, A.REMOVE, "user", "ann")
    assert "Job(s) active" in change(world, A.REMOVE, "account", "physics")
    world.started(1)
    world.advance(100)
    world.exited(1)
    refused = change(world, A.REMOVE, "user", "ann", accounts=("optics",))
    assert refused == "refused: You can not remove the default account of a user: user ann, account optics"
    assert change(world, A.MODIFY, "user", "ann", "bob", defaultaccount="bio") == "ann bob"
    assert change(world, A.REMOVE, "user", "ann", accounts=("optics",)) == "ann"
    shares = world.core.state.shares
    assert shares.default_accounts["ann"] == "bio"
    world.advance(2)
    assert shares.accounts["physics"].total // 10_000 in (199, 200)
    world.restart()
    assert world.core.state.shares.accounts["physics"].total // 10_000 in (199, 200)
    assert change(world, A.REMOVE, "account", "physics") == "physics"
    assert tree(world) == ["root=1", ".bio=30", "..ann=2", "..bob=2"]
    world.restart()
    assert tree(world) == ["root=1", ".bio=30", "..ann=2", "..bob=2"]
    assert world.core.state.shares.default_accounts == {"ann": "bio", "bob": "bio"}


def test_what_made_itself_is_taken_over_with_its_usage() -> None:
    world = make()
    world.submit(JobSubmission(name="j", work_dir=b"/tmp", account="Own", ntasks=4), "ann")
    world.started(1)
    world.advance(50)
    assert tree(world) == ["root=1", ".own=1", "..ann=1"]
    assert change(world, A.ADD, "account", "own", fairshare="7") == "own"
    assert change(world, A.ADD, "user", "ann", accounts=("own",), fairshare="3") == "ann"
    world.advance(2)
    assert tree(world) == ["root=1", ".own=7", "..ann=3"]
    assert world.core.state.shares.accounts["own"].total // 10_000 >= 200
    assert world.core.state.registry.own_accounts == 0
    assert change(world, A.MODIFY, "account", "own", rawusage="0") == "own"
    world.advance(2)
    assert world.core.state.shares.accounts["own"].total // 10_000 <= 16


def test_26_2_a_request_of_a_coordinator_has_fewer_changes() -> None:
    """All others wait while it is carried out."""
    world = planted()
    assert change(world, A.ADD, "user", "ann", accounts=("physics",)) == "ann"
    event = ChangeAccounts(world.actor("ann"), A.MODIFY, "user", ("ann",), {"fairshare": "5"})
    for user, is_refused in (("ann", True), ("opa", False), ("root", False)):
        many = ChangeMany(world.actor(user), (event,) * (COORDINATOR_CHANGES_MAX + 1), True, world.reply_to())
        assert any("the limit of coordinators is 2000" in line for line in world.do(many)) is is_refused
