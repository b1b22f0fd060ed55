"""Who may do what to whose job, reservation, crontab, trigger, node and partition: one table, written by hand, and what happens.

Rows are what is done; columns are roles, each with three letters: to one's own, to somebody else's in the same account
(physics), to somebody else's elsewhere (bio). y = it is done, n = it is denied, - = there is no such thing. cora coordinates
physics. Rights over accounting's records have a table of their own (test_entity_rights.py), methods as a whole another one
(tests/auth/test_auth_rights.py), scripts and what is seen a third (tests/rpc/test_rpc_sight.py).
"""

import re
from typing import Any

import pytest

from ctld.core.records.effects import Refusal, Results
from ctld.core.records.events import (
    AccountAction,
    Actor,
    AwaitAllocation,
    AwaitJob,
    CancelJobs,
    ChangeAccounts,
    ChangeMany,
    ClearTriggers,
    ControlAction,
    ControlJobs,
    CreatePersonalToken,
    CreateReservation,
    CreateStep,
    DeleteReservation,
    EndAllocation,
    Event,
    JobFilter,
    JobSubmission,
    NotifyJob,
    ReservationSettings,
    RevokePersonalToken,
    RevokeTokens,
    Role,
    SetTrigger,
    SubmitJob,
    UpdateCrontab,
    UpdateJobs,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
)
from ctld.core.records.periodic import Trigger, TriggerKind
from ctld.core.records.step import StepRequest
from penstock.values.refusals import Code
from penstock.values.scopes import Scope
from tests.core.world import SPEC, US, World, make_config

USER, OPERATOR, ADMINISTRATOR = Role.USER, Role.OPERATOR, Role.ADMINISTRATOR


def actor(uid: int, name: str, role: Role = USER) -> Actor:
    return Actor(uid, uid, name, name, (name,), role)


WHO = {
    "user": actor(1001, "ann"), "coordinator": actor(1005, "cora"), "operator": actor(1006, "opa", OPERATOR),
    "administrator": actor(1007, "ada", ADMINISTRATOR), "root": actor(0, "root", ADMINISTRATOR),
}  # fmt: skip
SAME, OTHER = actor(1002, "bob"), actor(1003, "eve")
ROOT = WHO["root"]
A, CA = AccountAction, ControlAction
FOREVER_US = 4_000_000_000 * US


def to_jobs(make):
    """A request about the job of that id."""
    return lambda who, job_id: make(who, str(job_id))


def control(action: ControlAction):
    return to_jobs(lambda who, text: ControlJobs(who, (text,), action, 1))


def update(**changes: str):
    return to_jobs(lambda who, text: UpdateJobs(who, (text,), changes, {}, 1))


#: What is done to a job: the job's state, the request, and who may.
JOBS = {
    "cancel": ("held", to_jobs(lambda w, t: CancelJobs(w, JobFilter(ids=(t,)), reply_to=1)), "ynn yyn yyy yyy yyy"),
    "signal": ("runs", to_jobs(lambda w, t: CancelJobs(w, JobFilter(ids=(t,)), 10, reply_to=1)), "ynn yyn yyy yyy yyy"),
    "hold": ("waits", control(CA.HOLD), "ynn yyn yyy yyy yyy"),
    "uhold": ("waits", control(CA.USER_HOLD), "ynn yyn yyy yyy yyy"),
    "release": ("held", control(CA.RELEASE), "ynn yyn yyy yyy yyy"),
    "release what an administrator holds": ("held by root", control(CA.RELEASE), "nnn nnn yyy yyy yyy"),
    "requeue": ("runs", control(CA.REQUEUE), "ynn yyn yyy yyy yyy"),
    "requeuehold": ("runs", control(CA.REQUEUE_HOLD), "ynn yyn yyy yyy yyy"),
    "requeue state=specialexit": ("runs", control(CA.REQUEUE_SPECIAL), "ynn yyn yyy yyy yyy"),
    "suspend": ("runs", control(CA.SUSPEND), "nnn nnn yyy yyy yyy"),
    "top": ("waits", control(CA.TOP), "dnn ddn yyy yyy yyy"),  # d = without enable_user_top
    "change a comment": ("held", update(comment="x"), "ynn ynn yyy yyy yyy"),
    "lower the time limit": ("held", update(timelimit="1"), "ynn ynn yyy yyy yyy"),
    "raise the time limit of a running job": ("runs", update(timelimit="90"), "nnn nnn yyy yyy yyy"),
    "raise a priority": ("waits", update(priority="4294967293"), "nnn nnn yyy yyy yyy"),
    "nice below 0": ("held", update(nice="-5"), "nnn nnn yyy yyy yyy"),
    "an administrator's comment": ("held", update(admincomment="x"), "nnn nnn yyy yyy yyy"),
    "wait for its end": ("held", lambda w, i: AwaitJob(w, i, 1), "ynn yyn yyy yyy yyy"),
    "notify": ("runs", to_jobs(lambda w, t: NotifyJob(w, t, "hello", 1)), "ynn yyn yyy yyy yyy"),
    "look at its allocation": ("runs", lambda w, i: AwaitAllocation(w, i, False, 1), "ynn ynn yyy yyy yyy"),
    "end its allocation": ("salloc", lambda w, i: EndAllocation(w, i, reply_to=1), "ynn ynn yyy yyy yyy"),
    "run a step": ("runs", lambda w, i: CreateStep(w, i, "k", StepRequest(name="s"), SPEC, False, 1), "ynn ynn ynn ynn ynn"),
}  # fmt: skip


PLANTED = (
    *(
        change
        for name, users in {"physics": ("ann", "bob", "cora", "opa", "ada", "root"), "bio": ("eve",)}.items()
        for change in (
            ChangeAccounts(ROOT, A.ADD, "account", (name,), {}),
            ChangeAccounts(ROOT, A.ADD, "user", users, {}, (name,)),
        )
    ),
    ChangeAccounts(ROOT, A.ADD, "coordinator", ("physics",), {}, users=("cora",)),
)


def make(**config: Any) -> World:
    world = World(make_config(slurmctld_parameters=(("allow_user_triggers", ""),), **config))
    for name in ("n1", "n2"):
        world.register(name)
    world.do(ChangeMany(ROOT, PLANTED))
    assert world.core.state.shares.coordinator_of == {"cora": ("physics",)}
    return world


def job_of(world: World, owner: Actor, how: str) -> int:
    """A job of that user, in that state."""
    account = "bio" if owner.user_name == "eve" else "physics"
    # A priority of its own, so that somebody may lower and raise it; and 30 minutes.
    wanted: dict[str, Any] = {
        "name": "x",
        "account": account,
        "time_limit_s": 1800,
        "hold": how.startswith(("held", "waits")),
    }
    if how == "salloc":
        wanted["kind"] = 1
    world.do(SubmitJob(owner, f"k{world.reply_to()}", world.now_us, JobSubmission(**wanted), SPEC))
    job_id = world.counters[0] - 1
    if how == "waits":
        dependent = JobSubmission(name="x", account=account, time_limit_s=1800, dependency=f"afterok:{job_id}")
        world.do(SubmitJob(owner, f"k{world.reply_to()}", world.now_us, dependent, SPEC))
        job_id += 1
    if how == "held by root":
        world.do(ControlJobs(ROOT, (str(job_id),), CA.HOLD))
    if how == "runs":
        job = world.core.state.jobs[job_id]
        world.started(job_id) if job.state.name == "RUNNING" else None
    return job_id


def outcome(world: World, event: Event) -> str:
    """y, n, or the refusal."""
    world.replies.pop(1, None)
    world.do(event)
    body = world.replies.get(1)
    if isinstance(body, Results):
        codes = [result.code for result in body.results]
    else:
        codes = [body.code] if isinstance(body, Refusal) else [0]
    letters = {0: "y", int(Code.DISABLED_STATE): "d"}
    if codes[0] in letters:
        return letters[codes[0]]
    return "n" if codes == [int(Code.ACCESS_DENIED)] else str(body)


@pytest.mark.parametrize("name", JOBS)
def test_jobs(name: str) -> None:
    how, request, expected = JOBS[name]
    found = []
    for who in WHO.values():
        world = make()
        jobs = [job_of(world, owner, how) for owner in (who, SAME, OTHER)]
        found.append("".join(outcome(world, request(who, job_id)) for job_id in jobs))
    assert dict(zip(WHO, found, strict=True)) == dict(zip(WHO, expected.split(), strict=True))


# ---- what is nobody's, and what belongs to users beside jobs ----------------------------------------------------------

LATER = ReservationSettings(start_at_us=2_000_000 * US, duration_s=60, all_nodes=True, users=(("", "ann", 1001),))
MUCH_LATER = ReservationSettings(start_at_us=3_000_000 * US, duration_s=60, all_nodes=True, users=(("", "ann", 1001),))

#: Who may: user, coordinator, operator, administrator, root.
OBJECTS = {
    "create a reservation": (lambda w: CreateReservation(w, "r2", MUCH_LATER, 1), "nnyyy"),
    "change a reservation": (lambda w: UpdateReservation(w, "maint", ReservationSettings(comment="x"), 1), "nnyyy"),
    "delete a reservation": (lambda w: DeleteReservation(w, "maint", 1), "nnyyy"),
    "drain a node": (lambda w: UpdateNodes(w, ("n1",), {"state": "DRAIN", "reason": "x"}, 1), "nnnyy"),
    "close a partition": (lambda w: UpdatePartition(w, "debug", {"state": "DOWN"}, 1), "nnnyy"),
    "crontab of somebody else": (lambda w: UpdateCrontab(w, SAME, "", (), 1), "nnnyy"),
    "trigger on somebody else's job": (
        lambda w: SetTrigger(w, int(TriggerKind.FINI), "/bin/true", job_id=1, reply_to=1), "nnyyy",
    ),
    "clear somebody else's trigger": (lambda w: ClearTriggers(w, 7, reply_to=1), "nnnyy"),
    "revoke their own tokens": (lambda w: RevokeTokens(w, w.user_name, 1), "yyyyy"),
    "revoke somebody else's tokens": (lambda w: RevokeTokens(w, SAME.user_name, 1), "nnnyy"),
    "make a personal token": (lambda w: CreatePersonalToken(w, f"id of {w.user_name}", "ci", Scope.READ, FOREVER_US, 1), "yyyyy"),
    "revoke somebody else's personal token": (lambda w: RevokePersonalToken(w, SAME.user_name, "ci", 1), "nnnyy"),
    "revoke everybody's tokens": (lambda w: RevokeTokens(w, "", 1), "nnnyy"),
    "nice below 0 at submission": (lambda w: submission(w, nice=-1), "nnyyy"),
    "a priority at submission": (lambda w: submission(w, priority=9), "nnyyy"),
}  # fmt: skip


def submission(who: Actor, **wish: Any) -> SubmitJob:
    return SubmitJob(who, "key", 1_000_000 * US, JobSubmission(name="x", account="physics", **wish), SPEC, reply_to=1)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name: str) -> None:
    request, expected = OBJECTS[name]
    found = ""
    for who in WHO.values():
        world = make(scron_parameters=(("enable", ""),))
        job_of(world, SAME, "held")
        world.do(CreateReservation(ROOT, "maint", LATER))
        world.do(CreatePersonalToken(SAME, "id", "ci", Scope.READ, FOREVER_US))
        world.core.state.periodic.put_trigger(
            Trigger(7, SAME.uid, SAME.gid, "bob", int(TriggerKind.DOWN), "", (), 0, 0, "/bin/true", True, 1)
        )
        found += outcome(world, request(who))
    assert dict(zip(WHO, found, strict=False)) == dict(zip(WHO, expected, strict=True))
    assert found == expected


# ---- what is not seen does not exist ---------------------------------------------------------------------------------


def answer(world: World, event: Any) -> Any:
    world.replies.pop(1, None)
    world.do(event)
    body = world.replies.get(1)
    if isinstance(body, Results):
        return [(result.code, result.text) for result in body.results]
    return (body.code, body.text) if isinstance(body, Refusal) else body


def without(body: object, job_id: int) -> str:
    return re.sub(rf"\b{job_id}\b", "ID", str(body))


#: Those that somebody may send who has no rights over the job.
ASKED = {name: JOBS[name][:2] for name in JOBS if not name.startswith(("raise", "nice", "an administrator"))}


@pytest.mark.parametrize("name", ASKED)
def test_private_jobs_look_as_if_they_were_not_there(name: str) -> None:
    """The text, too, but for the id in it."""
    how, request = ASKED[name]
    world = make(private_data=("jobs",))
    job_id = job_of(world, OTHER, how)
    mine, there = answer(world, request(WHO["user"], 999)), answer(world, request(WHO["user"], job_id))
    assert without(there, job_id) == without(mine, 999)
    assert int(Code.ACCESS_DENIED) != (there[0][0] if isinstance(there, list) else there[0])
    assert without(answer(world, request(WHO["coordinator"], job_id)), job_id) == without(mine, 999)


def test_an_equal_submission_of_another_user_lends_no_rights() -> None:
    """What was found for one user is remembered; which jobs a user may depend on is that user's alone."""
    world = make(private_data=("jobs",))
    job_id = job_of(world, SAME, "held")
    wanted = JobSubmission(name="x", account="physics", dependency=f"afterok:{job_id}", time_limit_s=60)
    before = world.counters[0]
    world.do(SubmitJob(SAME, "k1", world.now_us, wanted, SPEC))
    assert world.counters[0] == before + 1
    world.do(SubmitJob(WHO["user"], "k2", world.now_us, wanted, SPEC))
    assert world.counters[0] == before + 1


def test_arrays_of_others_are_not_waited_for() -> None:
    world = make()
    array = JobSubmission(name="x", account="bio", array="0-1", time_limit_s=60)
    world.do(SubmitJob(OTHER, "ka", world.now_us, array, SPEC))
    job_id = world.counters[0] - 1
    base = min(world.core.state.arrays)
    assert outcome(world, AwaitJob(WHO["user"], base, 1)) == "n", (job_id, base)


def test_a_coordinator_sees_what_he_may_not_change() -> None:
    world = make(private_data=("jobs",))
    job_id = job_of(world, SAME, "held")
    assert outcome(world, UpdateJobs(WHO["coordinator"], (str(job_id),), {"comment": "x"}, {}, 1)) == "n"


def test_what_a_coordinator_does_to_others_jobs_is_recorded() -> None:
    world = make()
    job_id = job_of(world, SAME, "held")
    number = len(world.audit)
    world.do(CancelJobs(WHO["coordinator"], JobFilter(ids=(str(job_id),))))
    assert [row.user_name for row in world.audit[number:]] == ["cora"]
