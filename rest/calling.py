"""A request as its handler sees it: checked parameters, the parsed body, and a controller that acts for the caller."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from cli.base.document import Json
from penstock.errors import PenstockError, Unreachable
from penstock.values.dates import DATE_AT_US_MAX
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.refusals import Code
from rest.answers import BAD_QUERY, NotModified, RestError, error_object, slurm_number, warning_object
from rest.contract.facts import Operation, Words
from rest.contract.parse import CONVERSION, UNKNOWN_WORD, BodyProblem
from rest.limits import CALL_TIMEOUT_S, SILENT_S, STREAM_TIMEOUT_S, TEXT_CHARS_MAX
from rest.tags import EntityTag, KeptMoments

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.calls import Proof
    from penstock.client import ReplyMessage
    from penstock.clusterfile import ClusterFile
    from penstock.v1 import controller_pb2 as wire
    from rest.interactive.service import SessionService
    from rest.limits import RequestShare
    from rest.simulations import Simulations
    from rest.sitetemplates import SiteTemplates

    PolledRequest = (
        wire.ListNodesRequest | wire.ListGpuReadingsRequest | wire.ListPartitionsRequest | wire.ListReservationsRequest
    )

T = TypeVar("T")
_YES = frozenset(("true", "yes", "1", ""))
_NO = frozenset(("false", "no", "0"))
#: Digits of a number in a query or path.
DIGITS_MAX = 18


class ControllerClient(Protocol):
    """What a handler needs of `penstock.aclient.AsyncClient`."""

    @property
    def cluster(self) -> "ClusterFile":
        """The cluster, whose nodes can be asked."""

    async def call(
        self, method: str, request: "Message", timeout_s: float | None = None, *, proof: "Proof | None" = None
    ) -> "ReplyMessage":
        """One request, one answer."""

    def follow(
        self,
        method: str,
        request: "Message",
        timeout_s: float = math.inf,
        *,
        proof: "Proof | None" = None,
        read_as: "type[Message] | None" = None,
    ) -> AsyncIterator["ReplyMessage"]:
        """One request, pages of its answer as they arrive. `read_as`: the message that they are read as."""


#: Calls whose replies are of use once, and no part of an answer: its tag does not count them.
_NOT_SHOWN: Final = frozenset(("OpenOutput",))


@dataclass(slots=True)
class RestCall:
    """One request. Handlers add to `errors` and `warnings` what the answer carries beside its content."""

    operation: Operation
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: object
    cluster: str
    now_us: int
    received_at_us: int
    client: ControllerClient
    proof: "Proof | None"
    errors: list[Json] = field(default_factory=list)
    warnings: list[Json] = field(default_factory=list)
    tag: EntityTag = field(default_factory=EntityTag)
    if_none_match: str = ""
    demands_new: bool = False  # If-None-Match: * of a POST that makes or changes records
    moments: KeptMoments = field(default_factory=KeptMoments)  # of the daemon
    asked: str = ""  # the tag before any reply, if the answer has a moment
    moment: bytes = b""
    idempotency_keys: tuple[str, ...] = ()  # the headers
    share: "RequestShare | None" = None  # of the limits; None: it may not do what blocks
    trace_parent: str = ""  # the caller's trace context
    simulations: "Simulations | None" = None
    sessions: "SessionService | None" = None  # None: this daemon has no origin for them
    site_templates: "SiteTemplates | None" = None  # None: the site has none

    async def user_id(self) -> int:
        """Who asks, by the controller's word: what the daemon answers by itself proves nobody. Its reply is no part of the
        answer, so not of its tag. Raises PenstockError, RestError."""
        from penstock.v1.controller_pb2 import PingReply, PingRequest

        reply: PingReply = await self.client.call("Ping", PingRequest(), CALL_TIMEOUT_S, proof=self.proof)
        if not reply.HasField("user_id"):
            raise RestError(422, 0, "the controller is too old to say who asks: upgrade it")
        return reply.user_id

    async def call(self, method: str, request: "Message", timeout_s: float = CALL_TIMEOUT_S) -> "ReplyMessage":
        """One request to the controller, for the caller. Raises PenstockError."""
        answer = self.client.call(method, request, timeout_s, proof=self.proof)
        reply = await (self._while_there(answer) if timeout_s > CALL_TIMEOUT_S else answer)
        if method not in _NOT_SHOWN:
            self.tag.note(reply)
        return reply

    async def polled(self, method: str, request: "PolledRequest") -> "ReplyMessage":
        """The one request of an answer that is polled: nothing is sent to the daemon if the caller has the answer already
        (rest/tags.py). Raises NotModified, PenstockError."""
        self.asked = self.tag.text()
        known = self.moments.known(self.asked, self.if_none_match)
        request.known = known.moment
        reply = await self.client.call(method, request, CALL_TIMEOUT_S, proof=self.proof)
        if reply.unchanged:
            raise NotModified(known.tag)
        self.moment = reply.moment
        reply.ClearField("moment")  # it is of this controller's process, the tag is not
        self.tag.note(reply)
        return reply

    async def pages(self, method: str, request: "Message") -> AsyncIterator["ReplyMessage"]:
        """The pages of an answer. Raises PenstockError."""
        async for page in self.follow(method, request):
            self.tag.note(page)
            yield page

    async def noted_pages(self, method: str, request: "Message") -> AsyncIterator[tuple["ReplyMessage", bytes]]:
        """The pages of an answer, each also as on the wire. Raises PenstockError."""
        async for page in self.follow(method, request):
            yield page, self.tag.note(page)

    async def follow(
        self, method: str, request: "Message", read_as: "type[Message] | None" = None
    ) -> AsyncGenerator["ReplyMessage"]:
        """The pages of an answer as they arrive, none of them noted. `read_as`: the message that they are read as. Raises
        PenstockError."""
        pages = self.client.follow(method, request, STREAM_TIMEOUT_S, proof=self.proof, read_as=read_as)
        while (page := await self._while_there(anext(pages, None))) is not None:
            yield page

    async def _while_there(self, answer: Awaitable[T]) -> T:
        """What may take long: a search of the database, a plan of the whole queue. It is waited for while the controller
        answers other questions at least every CALL_TIMEOUT_S. Raises Unreachable, and what the answer raises."""
        loop = asyncio.get_running_loop()
        asking: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S) as limit:
                silent = loop.call_later(SILENT_S, lambda: asking.append(loop.create_task(self._extend(limit))))
                try:
                    return await answer
                finally:
                    silent.cancel()
                    for one in asking:
                        one.cancel()
        except TimeoutError:
            raise Unreachable from None

    async def _extend(self, limit: asyncio.Timeout) -> None:
        """Gives an answer more time as long as the controller is there."""
        loop = asyncio.get_running_loop()
        while await self._is_there():
            limit.reschedule(loop.time() + CALL_TIMEOUT_S)
            await asyncio.sleep(SILENT_S)

    async def _is_there(self) -> bool:
        """Whether the controller answers, be it with a refusal."""
        from penstock.v1.controller_pb2 import PingRequest

        try:
            await self.client.call("Ping", PingRequest(), CALL_TIMEOUT_S - SILENT_S, proof=self.proof)
        except Unreachable:
            return False
        except PenstockError:
            return True
        return True

    def check_modified(self) -> None:
        """Raises NotModified if the caller has the answer: all replies that it is made of are here."""
        if self.moment:
            self.moments.keep(self.asked, self.tag.text(), self.moment)
        if self.tag.is_among(self.if_none_match):
            raise NotModified(self.tag.text())

    def check_new(self, is_there: bool, code: Code, name: str, source: str) -> None:
        """Raises RestError with 412 for a record that is there, if the caller demands that it is made and not changed. `code`:
        that of the controller's refusal to make it."""
        if self.demands_new and is_there:
            raise RestError(412, slurm_number(code), f"{name} exists already", source=source)

    def fail(self, text: str, number: int = 0, source: str = "") -> None:
        """Adds an error; the status stays 200."""
        self.errors.append(error_object(number, text, source))

    def warn(self, text: str, source: str = "") -> None:
        """Adds a warning."""
        self.warnings.append(warning_object(text, source))

    def record(self) -> Mapping[str, object]:
        """The body, an object; empty when there is none."""
        return cast("Mapping[str, object]", self.body) if isinstance(self.body, dict) else {}

    # ---- parameters

    def number(self, name: str) -> int:
        """A number of the query, 0 when it is not there. Raises RestError."""
        text = self.query.get(name, "")
        if not text:
            return 0
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
            raise bad_query(name, text, CONVERSION)
        return int(text)

    def time_us(self, name: str) -> int:
        """A time of the query in seconds since 1970 as microseconds, 0 when it is not there. Raises RestError."""
        at_us = self.number(name) * 1_000_000
        if at_us > DATE_AT_US_MAX:
            raise bad_query(name, self.query[name], CONVERSION)
        return at_us

    def node_names(self, name: str) -> list[str]:
        """The nodes of a list of the query, written out. Raises RestError."""
        text = self.query.get(name, "")
        try:
            return expand(text) if text else []
        except BadValue as error:
            raise bad_query(name, text, CONVERSION) from error

    def flag(self, name: str) -> bool:
        """A switch of the query. Raises RestError."""
        text = self.query.get(name)
        if text is None or text.lower() in _NO:
            return False
        if text.lower() not in _YES:
            raise bad_query(name, text, CONVERSION)
        return True

    def words(self, name: str) -> list[str]:
        """The words of a list with commas; those of an enumeration are checked. Raises RestError."""
        parameter = next((one for one in self.operation.parameters if one.name == name), None)
        found = [word for word in self.query.get(name, "").split(",") if word]
        if parameter is not None and isinstance(parameter.schema, Words):
            known = {word.lower(): word for word in parameter.schema.words}
            for word in found:
                if word.lower() not in known:
                    raise bad_query(name, word, UNKNOWN_WORD)
            found = [known[word.lower()] for word in found]
        return found

    def words_in(self, name: str) -> list[str]:
        """The words of a list in the body."""
        found = self.record().get(name, [])
        return [str(one) for one in found] if isinstance(found, list) else []

    def text_in(self, name: str, chars_max: int = TEXT_CHARS_MAX) -> str:
        """A text of the body; "" when it is not there. Raises RestError for a longer one."""
        found = self.record().get(name, "")
        text = found if isinstance(found, str) else str(found)
        if len(text) > chars_max:
            raise RestError(422, CONVERSION, too_long(name, text, chars_max), source=f"#/{name}")
        return text


def too_long(name: str, text: str, chars_max: int) -> str:
    """What is said of a text that is not looked at."""
    return f"{name} has {len(text)} characters, the limit is {chars_max}"


def bad_query(name: str, text: str, number: int) -> RestError:
    """The answer to a value of the query that cannot be read."""
    shown = text[:60] if text.isprintable() else repr(text[:60])
    problems = (
        BodyProblem(number, f'{name}: "{shown}" cannot be read', f"#/{name}"),
        BodyProblem(BAD_QUERY, f'the query has a value of {name} that is not valid: "{shown}"', f"#/{name}"),
    )
    return RestError(422, number, "", problems=problems)


def bad_path(name: str, text: str) -> RestError:
    """The answer to a value of the path that cannot be read."""
    shown = text[:60] if text.isprintable() else repr(text[:60])
    return RestError(422, BAD_QUERY, f'{name}: "{shown}" is not valid', source=f"#/{name}")
