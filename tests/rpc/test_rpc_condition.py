"""ShowController: certificates with their ends and warnings, the database without its password; for administrators alone."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from sqlalchemy import Connection

from ctld.rpc.control import condition
from ctld.rpc.control.condition import SHOWN_MAX
from ctld.rpc.gate.services import Services
from ctld.runtime.certificates import CertificateEnd
from penstock.security.ca import issue_to_folder, load_ca
from penstock.v1 import controller_pb2 as c
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of, now_us

USER = 54_321
DAY_US = 86_400_000_000


def test_of_a_real_controller(tmp_path: Path) -> None:
    """A certificate that was not renewed is warned of, one that has ended is of nobody any more."""
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller():
            at_us, authority = now_us(), load_ca(site.state / "ca")
            for name, age_days in (("n1", 0), ("n2", 80), ("n3", 100)):
                issue_to_folder(authority, tmp_path / name, "node", name, at_us - age_days * DAY_US)
            reply = await site.call_as(0, "ShowController", c.ShowControllerRequest())
            assert [(one.role, one.name) for one in reply.certificates[:1]] == [("ca", "")]
            assert [(one.role, one.name) for one in reply.certificates[2:]] == [("node", "n2"), ("node", "n1")]
            assert reply.certificates[1].role == "controller" and reply.issued == 2
            assert [bool(one.warning) for one in reply.certificates] == [False, False, True, False]
            assert "was not renewed" in reply.certificates[2].warning
            assert all(one.end_at_us > at_us for one in reply.certificates)
            found = reply.database
            assert (
                found.kind == "sqlite"
                and Path(found.address).is_file()
                and found.size_bytes % 4096 == 0 < found.size_bytes
            )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await site.call_as(USER, "ShowController", c.ShowControllerRequest())
            assert code_of(refused.value) is Code.ACCESS_DENIED

    asyncio.run(story())


def test_no_password_leaves_and_few_of_many_certificates_are_shown() -> None:
    asked: list[str] = []

    class Answer:
        """The one row of a server."""

        def execute(self, statement: object) -> "Answer":
            asked.append(str(statement))
            return self

        def scalar_one(self) -> int:
            return 4096

    async def read(work: Callable[[Connection], int]) -> int:
        return work(cast("Connection", Answer()))

    own = [CertificateEnd("controller", "ctl", 7, ""), CertificateEnd("ca", "", 9, "")]
    nodes = [CertificateEnd("node", f"n{number}", 1000 - number, "") for number in range(SHOWN_MAX + 5)]
    services: Any = SimpleNamespace(  # Any: what a reply is made of, and no controller
        certificate_ends=lambda: [*nodes, *own],
        records=SimpleNamespace(address="postgresql://penstock:s3cret@db.example/penstock?password=s3cret2"),
        reading=SimpleNamespace(read=read),
        runtime=SimpleNamespace(clock_us=lambda: 50, durable_to_us=lambda: 20),
    )
    reply = asyncio.run(condition.shown(cast("Services", services)))
    assert "s3cret" not in str(reply) and "db.example" in reply.database.address
    assert (reply.database.kind, reply.database.size_bytes, reply.database.behind_us) == ("postgresql", 4096, 30)
    assert asked == ["SELECT pg_database_size(current_database())"]
    assert [one.role for one in reply.certificates[:2]] == ["ca", "controller"]
    assert (len(reply.certificates), reply.issued) == (2 + SHOWN_MAX, SHOWN_MAX + 5)
    assert reply.certificates[2].name == f"n{SHOWN_MAX + 4}"
