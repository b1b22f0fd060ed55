"""A controller that is killed, or stalls, while a long list is on its way: nobody takes the part for the whole, and the
daemon lives on."""

import json
import signal
from collections.abc import Callable

import httpx
import pytest
from effort import FULL
from liverest import PREFIX, LiveRest
from patience import ANSWER_S, END_S

from bench.fill import fill
from penstock.config import load

#: Some 5 kB each in the answer: together many times what is on its way at any moment.
JOBS = 100_000 if FULL else 3_000
ENDED = 10
#: What the controller is sent after so many bytes of the answer.
BROKEN_BY = ((1, signal.SIGKILL), (2_000_000, signal.SIGKILL), (2_000_000, signal.SIGSTOP))


def test_a_list_whose_controller_ends_or_stands_still_is_broken(new_rest: Callable[..., LiveRest]) -> None:
    rest = new_rest()
    cluster = rest.cluster
    token = rest.token()
    database = cluster.home / "ctld" / "penstock.db"
    cluster.daemons["ctld"].process.terminate()  # it gives its lease back
    assert cluster.wait_death("ctld") == 0
    fill(database, load(str(cluster.home / "slurm.conf")).config, ENDED, JOBS, ENDED)
    cluster.start_controller()
    with rest.as_user(token=token) as client:
        for after, number in BROKEN_BY:
            with client.stream("GET", f"{PREFIX}/jobs", headers={"Accept-Encoding": "identity"}) as reply:
                assert reply.status_code == 200 and "content-length" not in reply.headers
                parts = reply.iter_raw(65_536)
                body = bytearray()
                while len(body) < after:
                    body += next(parts)
                cluster.daemons["ctld"].process.send_signal(number)
                with pytest.raises(httpx.RemoteProtocolError):
                    for part in parts:
                        body += part
            with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
                json.loads(body)
            if number == signal.SIGSTOP:
                cluster.kill("ctld")
            assert cluster.daemons["ctld"].process.wait(ANSWER_S) == -signal.SIGKILL
            if number == signal.SIGSTOP:  # in one round: the daemon waits for ten seconds whether a controller comes
                assert client.get(f"{PREFIX}/jobs").status_code == 503
            cluster.start_controller()
        document = client.get(f"{PREFIX}/jobs", timeout=END_S).json()
    assert len(document["jobs"]) >= JOBS and document["errors"] == []
    assert "Traceback" not in rest.logged("ends early")
