"""What the controller stands on, for administrators: until when certificates are valid, and where its database is."""

import asyncio
from typing import Final

from sqlalchemy import Connection, text

from accounting.database import is_server
from accounting.database import shown as address_shown
from ctld.rpc.gate.services import Services
from ctld.runtime.certificates import CertificateEnd
from ctld.runtime.errors import BadRequest
from penstock.errors import BadSetup
from penstock.v1 import controller_pb2
from penstock.values.refusals import TEXT, Code

#: Certificates of nodes and login hosts that are shown: those that end first.
SHOWN_MAX: Final = 100
#: A database that is shared with others is counted whole.
_SERVER_SIZE: Final = text("SELECT pg_database_size(current_database())")
_FILE_SIZE: Final = text("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")


async def shown(services: Services) -> controller_pb2.ShowControllerReply:
    """Returns both. Raises BadRequest."""
    try:
        ends = await asyncio.to_thread(services.certificate_ends)
    except BadSetup as error:
        raise BadRequest(Code.INTERNAL, f"{TEXT[Code.INTERNAL]}: {error}") from error
    *others, own, ca = ends
    others.sort(key=lambda one: one.end_us)
    return controller_pb2.ShowControllerReply(
        certificates=map(_certificate, (ca, own, *others[:SHOWN_MAX])),
        issued=len(others),
        database=await _database(services),
    )


def _certificate(one: CertificateEnd) -> controller_pb2.CertificateInfo:
    return controller_pb2.CertificateInfo(role=one.role, name=one.name, end_at_us=one.end_us, warning=one.warning)


async def _database(services: Services) -> controller_pb2.DatabaseInfo:
    address = services.records.address
    on_server = is_server(address)
    runtime = services.runtime

    def size(connection: Connection) -> int:
        return int(connection.execute(_SERVER_SIZE if on_server else _FILE_SIZE).scalar_one())

    return controller_pb2.DatabaseInfo(
        kind="postgresql" if on_server else "sqlite",
        address=address_shown(address),
        size_bytes=await services.reading.read(size),
        behind_us=max(0, runtime.clock_us() - runtime.durable_to_us()),
    )
