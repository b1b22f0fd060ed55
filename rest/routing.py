"""Finds the endpoint of a path.

Most paths are written out, and are looked up. A path with parameters is compared with those that have as many parts, and the same
first ones: a list of all routes, of some hundred and thirty, takes a sixth of a submission's time.
"""

from collections.abc import Iterable
from typing import Final

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

#: The first parts of a path, which are no parameters: its interface, version, and the kind of thing.
_FIXED_PARTS: Final = 3


class Routes:
    """An application of many paths. /jobs/ is /jobs: the documents write some paths so and some so."""

    def __init__(self, routes: Iterable[tuple[str, ASGIApp]]) -> None:
        """Paths, of which the first one that fits is taken, but one that is written out before one with parameters."""
        self._written: dict[str, ASGIApp] = {}
        self._others: dict[tuple[int, tuple[str, ...]], list[Route]] = {}
        for path, endpoint in routes:
            if "{" not in path:
                self._written.setdefault(path, endpoint)
                continue
            assert "{" not in "".join(path.split("/")[: _FIXED_PARTS + 1]), path
            self._others.setdefault(_shape(path), []).append(Route(path, endpoint))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        path = scope["path"].rstrip("/") or "/"
        scope = {**scope, "path": path}
        endpoint = self._written.get(path) or self._with_parameters(path, scope)
        await (endpoint or not_found())(scope, receive, send)

    def _with_parameters(self, path: str, scope: Scope) -> ASGIApp | None:
        """The endpoint, and its parameters in the scope."""
        for route in self._others.get(_shape(path), ()):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route.app
        return None


def _shape(path: str) -> tuple[int, tuple[str, ...]]:
    parts = path.split("/")
    return len(parts), tuple(parts[1 : _FIXED_PARTS + 1])


def not_found() -> Response:
    """The answer where there is nothing."""
    return PlainTextResponse("Not found", 404)
