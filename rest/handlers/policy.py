"""The cluster's policy as one text, in /penstock/v1/ (docs/policy.md):

    GET  /penstock/v1/policy           the present one, as `penstock policy export` prints it
    POST /penstock/v1/policy/plan      what a text would change, one entry for each entity, and whether it may
    POST /penstock/v1/policy/apply     makes what a plan has shown, in one transaction
    POST /penstock/v1/policy/replay    begins to replay the last days' jobs under both policies, as a simulation

A plan has a fingerprint of all that it would change, from what to what, and of what the text does not name. It is computed again
when the plan is applied: another one is 409, so that nobody overwrites what another user has changed meanwhile. Between that
comparison and the change nothing is held.

The text is parsed, and compared with the cluster, in a thread, one at a time. The controller decides who may change what.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Final, NamedTuple

from cli.accounts.policydiff import Difference, difference, name_of
from cli.accounts.policyfile import Policy, parse_policy
from cli.accounts.policyreplay import replay_document, replayed
from cli.accounts.policystate import make_policy, to_yaml, word_of
from cli.base.document import Json
from cli.base.run import CommandError
from penstock.errors import NotProven, PenstockError, Unreachable
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.v1.controller_pb2 import ListQosRequest, RenderConfigReply, RenderConfigRequest
from penstock.v1.governance_pb2 import ChangeManyRequest
from penstock.values.refusals import Code
from rest.answers import RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION, NO_MEMBER, BodyProblem
from rest.handlers import simulate
from rest.handlers.accounts import tree_of
from rest.limits import POLICY_BYTES_MAX, POLICY_VALUES_MAX, REPLAYED_JOBS_MAX, SIMULATED_DAYS_MAX

#: `prune`: what the text does not name is removed.
BODY: Final = {"policy": "string", "prune": "boolean"}
APPLY: Final = {**BODY, "fingerprint": "string"}
REPLAY: Final = {**BODY, "days": "integer"}
#: sign: + added, ~ changed, - removed.
CHANGE: Final = {"name": "string", "before": "string", "after": "string"}
#: A row of a replay: waits of an account's jobs; null where none started.
WAIT: Final = {"account": "string", "jobs": "integer"} | {
    f"{figure}_{when}": "integer?"
    for figure in ("mean_s", "median_s", "p95_s", "refused", "waiting")
    for when in ("before", "after")
}  # fmt: skip
#: How messages call the text.
_NAME: Final = "policy"
_SOURCE: Final = "#/policy"
_STALE: Final = "the cluster is no longer as it was when this was planned: nothing was changed; plan again"
_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _US


class PolicyPlan(NamedTuple):
    """What a text would change of the cluster's present policy."""

    present: Policy
    found: Difference
    request: ChangeManyRequest

    def fingerprint(self) -> str:
        """Of all that would change, from what to what."""
        steps = [[step.sign, step.key, step.differences] for step in self.found.steps]
        text = json.dumps([self.present.cluster, steps, self.found.unnamed])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def show(call: RestCall) -> Json:
    """The present policy as a text."""
    assert call.share is not None
    make = await _present(call)
    async with call.share.planning:
        return {"policy": await call.share.in_thread(lambda: to_yaml(make()))}


async def plan(call: RestCall) -> Json:
    """What a text would change. `refusal`: why the controller would not make it for the caller; "" = it would."""
    made = await _planned(call)
    made.request.check_only = True
    refusal = await _refusal(call, made.request) if made.found.steps else ""
    return {
        "steps": [
            {
                "sign": step.sign,
                "what": name_of(step.key),
                "changes": [
                    {"name": word_of(name), "before": old, "after": new}
                    for name, (old, new) in step.differences.items()
                ],
            }
            for step in made.found.steps
        ],
        "not_in_the_file": [name_of(key) for key in made.found.unnamed],
        "fingerprint": made.fingerprint(),
        "refusal": refusal,
    }


async def apply(call: RestCall) -> Json:
    """Makes what was planned. Raises RestError with 409 if it is no longer what the plan has shown."""
    planned = call.record().get("fingerprint")
    if not planned:
        raise RestError(422, NO_MEMBER, "give the fingerprint of the plan to apply", source="#/fingerprint")
    made = await _planned(call)
    if planned != made.fingerprint():
        raise RestError(409, 0, _STALE, source="#/fingerprint")
    if made.found.steps:
        await call.call("ChangeMany", made.request)
    return {"changes": len(made.found.steps)}


async def replay(call: RestCall) -> Json:
    """Begins the replay; GET simulations/ID has its waits."""
    user_id = await call.user_id()
    days = call.record().get("days")
    if not isinstance(days, int) or not 1 <= days <= SIMULATED_DAYS_MAX:
        text = f"days is a number from 1 to {SIMULATED_DAYS_MAX}"
        raise RestError(422, CONVERSION, text, source="#/days")
    made = await _planned(call)
    simulations = simulate.simulations_of(call)
    run = simulations.reserve(user_id)
    try:
        conf: RenderConfigReply = await call.call("RenderConfig", RenderConfigRequest())
        jobs = await _jobs(call, days)
        assert call.share is not None
        order = await call.share.in_thread(
            lambda: replay_document(conf.text, jobs, made.present, list(made.request.changes))
        )
        simulations.start(run, {"replay": order}, b"")
    except BaseException:
        simulations.drop(run)
        raise
    return simulate.document(run)


async def _jobs(call: RestCall, days: int) -> list[Json]:
    """The jobs of the last days, as far as accounting shows them to the caller. Raises RestError."""
    since_us = call.now_us - days * _DAY_US
    found: list[Json] = []
    async for page in call.pages("ListRecords", ListRecordsRequest(start_at_us=since_us, no_steps=True)):
        for record in page.records:
            found += replayed(record, since_us, REPLAYED_JOBS_MAX + 1)
        if len(found) > REPLAYED_JOBS_MAX:
            text = f"more than {REPLAYED_JOBS_MAX} jobs in {days} days: take fewer"
            raise RestError(422, CONVERSION, text, source="#/days")
    return found


# ---- comparing


async def _present(call: RestCall) -> Callable[[], Policy]:
    """What makes the cluster's policy, in a thread."""
    tree = await tree_of(call, with_deleted=False)
    qos = (await call.call("ListQos", ListQosRequest())).qos
    return lambda: make_policy(tree.whole, qos)


async def _planned(call: RestCall) -> PolicyPlan:
    """The plan of the body's text. Raises RestError, with each mistake of it."""
    assert call.share is not None
    given = call.record()
    data = str(given.get("policy") or "").encode()
    if not data.strip():  # with `prune` this would be to remove all accounts
        raise RestError(422, NO_MEMBER, "give the text of a policy", source=_SOURCE)
    prune = bool(given.get("prune"))
    if len(data) > POLICY_BYTES_MAX:
        text = f"a policy has at most {POLICY_BYTES_MAX} bytes here: penstock policy takes larger ones"
        raise RestError(422, CONVERSION, text, source=_SOURCE)
    make = await _present(call)

    def compared() -> PolicyPlan:
        wanted = parse_policy(data, _NAME, POLICY_VALUES_MAX)
        present = make()
        if wanted.cluster not in ("", present.cluster):
            raise CommandError(f"it is for cluster {wanted.cluster}, this is {present.cluster}")
        found = difference(present, wanted, prune)
        return PolicyPlan(present, found, ChangeManyRequest(changes=found.changes()))

    try:
        async with call.share.planning:
            return await call.share.in_thread(compared)
    except CommandError as error:
        problems = tuple(BodyProblem(0, line, _SOURCE) for line in error.text.splitlines())
        raise RestError(422, 0, error.text, problems=problems) from None


async def _refusal(call: RestCall, request: ChangeManyRequest) -> str:
    """Why the controller would not make it. Raises PenstockError where it does not say so."""
    try:
        await call.call("ChangeMany", request)
    except (Unreachable, NotProven):
        raise
    except PenstockError as error:
        if error.code in (Code.RATE_LIMITED, Code.BUSY):
            raise
        return ": ".join(part for part in (error.text, error.detail) if part)
    return ""
