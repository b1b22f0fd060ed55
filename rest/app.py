"""The ASGI application: routes made from the contract, handlers from the table of `rest.handlers`.

    path and method -> operation -> caller's proof -> limits -> parameters and body -> handler
                    -> the answer in the version's form

What a client sends never makes a 5xx: a request is either carried out or refused with 4xx. An exception that nobody
expected is logged with its traceback and answered with 500 and one line.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cli.base.document import Json
from penstock.errors import PenstockError
from penstock.values.tracecontext import checked_traceparent
from rest import openapi
from rest.answers import BAD_QUERY, NEVER_KEPT, NotModified, RestError, error_of, meta_of, warning_object
from rest.body import JSON_TYPE, apart, read_body
from rest.callers import UnixPeer, identify, peer_key
from rest.calling import ControllerClient, RestCall
from rest.contract.conform import NULLABLE, conform
from rest.contract.facts import VERSION_MARK, Contract, ListOf, Operation, Schema
from rest.contract.parse import parse
from rest.events import EventStreams, read_demands
from rest.handlers import HANDLERS, RestHandler, own
from rest.interactive.service import SessionService
from rest.limits import (
    ACCEPTED_MAX,
    HELD_BYTES_MAX,
    PARAMETERS_MAX,
    SLICE_ITEMS,
    TEXTS_BYTES_MAX,
    Requests,
    RequestShare,
)
from rest.listing import KeptItems, StreamedJobs, StreamedList
from rest.pages import Pages, StaticFile
from rest.routing import Routes, not_found
from rest.sending import PagedResponse, item_texts, json_bytes, takes_gzip, whole
from rest.sessions import TOKENS_ALONE, LoginWays, Sessions
from rest.simulations import Simulations
from rest.sitetemplates import SiteTemplates
from rest.tags import EntityTag, KeptMoments
from rest.templates import MakeText, job_texts
from rest.texts import KeptTexts

if TYPE_CHECKING:
    from penstock.calls import Proof

log = logging.getLogger("restd")
#: Content types of answers, the writer of each.
YAML_TYPES: Final = ("application/yaml", "application/x-yaml")
#: Paths that change something by GET.
_CHANGING: Final = ("/requeue", "/reconfigure")
#: Paths of the document that describes all paths.
OPENAPI_PATHS: Final = ("/openapi", "/openapi.json", "/openapi.yaml", "/openapi/v3")


class RestApp:
    """What all requests share."""

    def __init__(
        self,
        client: ControllerClient,
        cluster: str,
        contract: Contract,
        requests: Requests,
        clock_us: Callable[[], int],
        sessions: SessionService | None,
        site_templates: SiteTemplates | None = None,
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.contract = contract
        self.requests = requests
        self.clock_us = clock_us
        self.texts = KeptTexts(TEXTS_BYTES_MAX)
        self.moments = KeptMoments()
        self.job_texts = job_texts()
        self.simulations = Simulations()
        self.sessions = sessions
        self.site_templates = site_templates


def now_us() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


def make_app(
    client: ControllerClient,
    cluster: str,
    contract: Contract,
    requests: Requests | None = None,
    streams: EventStreams | None = None,
    files: Mapping[str, StaticFile] | None = None,
    ways: LoginWays = TOKENS_ALONE,
    interactive: SessionService | None = None,
    site_templates: SiteTemplates | None = None,
) -> ASGIApp:
    """The application of one cluster. `client` is shared by all callers; `streams` are ended by who stops the server.
    `files`: of the web interface, if it is served; `ways`: how its users log in, beside tokens.
    `interactive`: sessions that are jobs, if this daemon has an origin for them; `site_templates`: scripts that jobs may
    begin with.
    """
    shared = RestApp(client, cluster, contract, requests or Requests(), lambda: now_us(), interactive, site_templates)
    routes: list[tuple[str, ASGIApp]] = [
        (f"/{path.strip('/')}".replace(VERSION_MARK, version.name), PathEndpoint(shared, operations))
        for version in contract.versions.values()
        for path, operations in sorted(version.operations.items())
    ]
    document = DocumentEndpoint(lambda: openapi.document(contract))
    routes += [(path, document) for path in OPENAPI_PATHS]
    routes += [
        (f"{own.PREFIX}{path}", PathEndpoint(shared, operations)) for path, operations in own.operations().items()
    ]
    routes.append((f"{own.PREFIX}/events", EventsEndpoint(streams or EventStreams(client))))
    routes.append((f"{own.PREFIX}/openapi.json", DocumentEndpoint(lambda: openapi.own_document(own.OWN_PATHS))))
    api = Routes(routes)
    return Pages(files, Sessions(api, client, cluster, shared.requests, ways)) if files else api


class PathEndpoint:
    """All methods of one path of one version."""

    def __init__(self, shared: RestApp, operations: Mapping[str, Operation]) -> None:
        self._shared = shared
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        request = Request(scope, receive)
        operation = self._operations.get(request.method.lower())
        with ExitStack() as held:  # until the answer is sent
            response = not_found() if operation is None else await self._answer(request, operation, held)
            log.debug("%s %s %s: %d", source_of(request), request.method, scope["path"], response.status_code)
            await response(scope, receive, send)

    async def _answer(self, request: Request, operation: Operation, held: ExitStack) -> Response:
        shared = self._shared
        source, is_own = source_of(request), operation.tag == own.TAG
        meta = {} if is_own else meta_of(operation.tag, operation.version, shared.cluster, source)
        kind = JSON_TYPE
        try:
            caller = identify(request.headers.raw, request.scope.get("client"))
            kind = accepted(request.headers.get("accept", ""))
            share = held.enter_context(await shared.requests.in_turn(caller.key, peer_key(request.scope.get("client"))))
            call = await self._read(request, operation, caller.proof, share)
            call.tag.vary(kind)
            content = await _handler(operation)(call)
            return answered(request, call, content, meta, kind, shared)
        except NotModified as unchanged:
            return Response(status_code=304, headers={"ETag": unchanged.tag} if unchanged.tag else None)
        except RestError as error:
            return refused(error, meta, kind)
        except PenstockError as error:
            return refused(error_of(error, operation.tag, operation), meta, kind)
        except Exception:
            log.exception("%s %s: internal error", operation.method, operation.path)
            return refused(RestError(500, 0, "internal error: see the log of restd"), meta, kind)

    async def _read(
        self, request: Request, operation: Operation, proof: "Proof | None", share: RequestShare
    ) -> RestCall:
        received_at_us, query = self._shared.clock_us(), read_query(request)
        value = await read_body(request, share)
        body: object = None
        warnings: list[Json] = []
        if operation.body is not None:
            schema, is_slurmdb = operation.body, operation.tag == "slurmdb"
            body, found = await apart(
                share, lambda given: parse(given, schema, must_be_complete=is_slurmdb), {} if value is None else value
            )
            if found.errors:
                raise RestError(422, 0, "", problems=tuple(found.errors))
            warnings = [warning_object(one.text, one.source) for one in found.warnings]
        names = {parameter.name for parameter in operation.parameters}
        warnings += [warning_object(f"Unknown query parameter: {name[:60]}") for name in query if name not in names]
        shared, known = self._shared, request.headers.get("if-none-match", "")
        tag = EntityTag(shared.cluster, request.scope["path"], *sorted(f"{name}={one}" for name, one in query.items()))
        return RestCall(
            operation, request.path_params, query, body, shared.cluster, shared.clock_us(), received_at_us, shared.client, proof,
            warnings=warnings, tag=tag, share=share,
            idempotency_keys=tuple(request.headers.getlist("idempotency-key")),
            trace_parent=_trace_parent(request), simulations=shared.simulations,
            sessions=shared.sessions,
            site_templates=shared.site_templates,
            if_none_match=known if reads(operation) else "",
            demands_new=operation.method == "post" and known.strip() == "*",
            moments=shared.moments,
        )  # fmt: skip


class EventsEndpoint:
    """The stream of changes: an answer without an end, so not one of the requests in progress."""

    def __init__(self, streams: EventStreams) -> None:
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        request = Request(scope, receive)
        async with AsyncExitStack() as held:  # until the stream ends
            response = not_found() if request.method != "GET" else await self._open(request, held)
            log.debug("%s %s %s: %d", source_of(request), request.method, scope["path"], response.status_code)
            await response(scope, receive, send)

    async def _open(self, request: Request, held: AsyncExitStack) -> Response:
        try:
            caller = identify(request.headers.raw, request.scope.get("client"))
            demands, after = read_demands(request, caller.proof)
            held.enter_context(self._streams.counted(caller.key, peer_key(request.scope.get("client"))))
            return await held.enter_async_context(self._streams.opened(demands, after))
        except RestError as error:
            return refused(error, {}, JSON_TYPE)
        except PenstockError as error:
            return refused(error_of(error, own.TAG), {}, JSON_TYPE)


class DocumentEndpoint:
    """An OpenAPI document; for callers with a proof, which nobody verifies: it holds no secret."""

    def __init__(self, make: Callable[[], Json]) -> None:
        self._make = make
        self._texts: dict[str, Response] = {}  # by content type; it never changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        request = Request(scope, receive)
        response: Response
        try:
            identify(request.headers.raw, scope.get("client"))
            if request.method != "GET":
                response = not_found()
            else:
                kind = (
                    YAML_TYPES[0] if request.url.path.endswith(".yaml") else accepted(request.headers.get("accept", ""))
                )
                if kind not in self._texts:
                    self._texts[kind] = whole(self._make(), 200, kind, {})
                response = self._texts[kind]
        except RestError as error:
            response = refused(error, {}, JSON_TYPE)
        await response(scope, receive, send)


def answer_of(content: Json, operation: Operation) -> Json:
    """The content in the form of the operation's version. A member that the handler leaves out is not there (an unknown
    node has no `nodes`)."""
    members = operation.answer.members
    return {
        name: None if name in NULLABLE and content[name] is None else conform(content[name], member)
        for name, member in members.items()
        if name in content
    }


def reads(operation: Operation) -> bool:
    """Whether the operation changes nothing: only then may its answer be one that the caller has."""
    return operation.method == "get" and not operation.path.rstrip("/").endswith(_CHANGING)


def answered(request: Request, call: RestCall, content: Json, meta: Json, kind: str, shared: RestApp) -> Response:
    """The answer of a handler. Raises NotModified."""
    operation, gzip = call.operation, takes_gzip(request.headers.get("accept-encoding", ""))
    is_own = operation.tag == own.TAG
    headers = {"Vary": "Accept, Accept-Encoding", **NEVER_KEPT}
    frame = {"meta": meta, "errors": call.errors, "warnings": call.warnings}
    if kind != JSON_TYPE:
        content = {name: one.made() if isinstance(one, KeptItems) else one for name, one in content.items()}
    lists = ((name, one) for name, one in content.items() if isinstance(one, StreamedList | StreamedJobs | KeptItems))
    streamed = next(lists, None)
    if reads(operation) and (streamed is None or streamed[1].has_tag):
        call.check_modified()
        headers |= {"ETag": call.tag.text(), "Cache-Control": "private, no-cache"}
    if is_own:
        del frame["meta"]
    if streamed is None:
        made = content | frame if is_own else answer_of(content | frame, operation)
        return whole(made, 200, kind, headers, gzip)
    name, stream = streamed
    rest = {key: one for key, one in (content | frame).items() if key != name}
    form, made = (None, rest) if is_own else (operation.answer.members[name], answer_of(rest, operation))
    assert form is None or isinstance(form, ListOf)
    texts = texts_of(stream, None if form is None else form.item, shared, f"{operation.version} {operation.path}")
    return PagedResponse(made, name, texts, kind, headers, gzip)


def texts_of(
    stream: StreamedList | StreamedJobs | KeptItems, form: Schema | None, shared: RestApp, name: str
) -> AsyncIterator[bytes]:
    """The texts of a list's items, some at a time. `form`: of the version; None = as they are. `name`: of the form."""

    def text(item: object) -> bytes:
        return json_bytes(item if form is None else conform(item, form))

    if isinstance(stream, StreamedList):
        return item_texts(stream.pages, text)
    if isinstance(stream, KeptItems):
        return _texts_of_kept(stream, shared, name, text)
    make = stream.make
    return _texts_of_jobs(stream.pages, shared, name, lambda data: text(make(data)))


async def _texts_of_jobs(
    pages: AsyncIterator[bytes], shared: RestApp, name: str, make: MakeText
) -> AsyncIterator[bytes]:
    """Jobs that are alike have a template, and texts of others in a list that is polled are kept."""
    of_list = shared.texts.of_list(name, HELD_BYTES_MAX)

    def kept(data: bytes) -> bytes:
        return of_list(data, lambda: make(data))

    async for page in pages:
        for part in shared.job_texts.parts(name, page, make, kept):
            yield part


async def _texts_of_kept(
    items: KeptItems, shared: RestApp, name: str, text: Callable[[object], bytes]
) -> AsyncIterator[bytes]:
    of_list = shared.texts.of_list(name, HELD_BYTES_MAX)
    for first in range(0, len(items.messages), SLICE_ITEMS):
        yield b",".join([
            of_list(one.SerializeToString(deterministic=True), lambda one=one: text(items.make(one)))  # type: ignore[misc]
            for one in items.messages[first : first + SLICE_ITEMS]
        ])  # fmt: skip


def _handler(operation: Operation) -> RestHandler:
    handler = HANDLERS.get((operation.method, operation.path.rstrip("/")))
    if handler is None:
        raise RestError(
            501, 2036, f"{operation.method.upper()} {operation.path}: not implemented yet; docs/rest.md says what is"
        )
    return handler


def read_query(request: Request) -> dict[str, str]:
    """The parameters of the query. Raises RestError for too many, one that is given twice, or is not UTF-8."""
    if not request.scope["query_string"]:
        return {}
    if request.scope["query_string"].count(b"&") >= PARAMETERS_MAX:
        raise RestError(422, BAD_QUERY, f"the query has more than {PARAMETERS_MAX} parameters")
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if "\ufffd" in name + value or "\0" in name + value:
            raise RestError(422, BAD_QUERY, "the query is not UTF-8")
        if name in found:
            raise RestError(422, BAD_QUERY, f"the query has {name[:60]} twice")
        found[name] = value
    return found


def _trace_parent(request: Request) -> str:
    """The caller's trace context; "" where there is none, or several (as W3C has it)."""
    given = request.headers.getlist("traceparent")
    return checked_traceparent(given[0].strip()) if len(given) == 1 else ""


def accepted(header: str) -> str:
    """The content type of the answer: the first known one of Accept's first. Raises RestError with 415."""
    said = header.split(",", ACCEPTED_MAX)[:ACCEPTED_MAX]
    types = [one.partition(";")[0].strip().lower() for one in said if one.strip()]
    if not types:
        return JSON_TYPE
    for one in types:
        if one in (JSON_TYPE, "*/*", "application/*"):
            return JSON_TYPE
        if one in YAML_TYPES:
            return one
    raise RestError(415, 0, f"Accept must name {JSON_TYPE} or {YAML_TYPES[0]}", is_plain=True)


def source_of(request: Request) -> str:
    """The caller's address, for meta."""
    peer = request.scope.get("client")
    if isinstance(peer, UnixPeer):
        return f"unix:{peer.uid}"
    return f"[{peer[0]}]:{peer[1]}" if peer else ""


def refused(error: RestError, meta: Json, kind: str) -> Response:
    """The answer to a request that is not carried out. 401 says nothing of the cluster."""
    headers = NEVER_KEPT | ({"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {})
    if error.is_plain:
        return PlainTextResponse(error.text, error.status, headers)
    frame: Json = {"errors": error.errors}
    if error.status != 401:
        frame = ({"meta": meta} if meta else {}) | frame | {"warnings": []}
    return whole(frame, error.status, kind, headers)
