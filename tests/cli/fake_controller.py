"""Two stand-ins for a controller: `FakeClient` inside the process, `WireController` on a Unix socket for commands."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

from patience import ANSWER_S

from cli.base.run import status_of
from penstock.clusterfile import ClusterFile
from penstock.v1.governance_pb2 import ListClustersReply

ROOT = Path(__file__).resolve().parents[2]
TOKEN = b"token-of-the-test"


class FakeClient:
    """Answers from a table: method -> message, list of pages, exception, or a function of the request. Without an entry
    for it, its database has no other clusters."""

    cluster: ClusterFile | None = None  # some listings read the caller's uid

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, Any]] = []

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def call(self, method: str, request: Any, timeout_s: float | None = None) -> Any:
        if method == "ListClusters" and method not in self.answers:
            return ListClustersReply()
        self.calls.append((method, request))
        answer = self.answers[method]
        answer = answer(request) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, method: str, request: Any, timeout_s: float | None = None) -> Any:
        yield from self.call(method, request)

    def install(self, monkeypatch: Any) -> "FakeClient":
        monkeypatch.setattr("penstock.client.Client.open", lambda *a, **k: self)
        return self

    @property
    def request(self) -> Any:
        """The one request that was sent."""
        ((_, request),) = self.calls
        return request


def run_body(capsys: Any, name: str, body: Callable[[list[str]], int], *argv: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of a command that runs inside this process."""
    status = status_of(name, body, list(argv))
    shown = capsys.readouterr()
    return status, shown.out, shown.err


class WireController:
    """A gRPC server and a token issuer on Unix sockets, with the discovery file that leads to them. An answer that raises
    PenstockError is refused.
    """

    def __init__(self, folder: Path, answers: dict[str, Callable[[Any], Any]]) -> None:
        import grpc

        from penstock.calls import CODE_KEY, TOKEN_KEY
        from penstock.clusterfile import ClusterFile, write_cluster
        from penstock.errors import PenstockError
        from penstock.v1 import controller_pb2, steps_pb2

        self.requests: list[tuple[str, Any]] = []
        self.tokens: list[bytes] = []
        modules = {"Controller": controller_pb2, "Steps": steps_pb2}
        services = {name: module.DESCRIPTOR.services_by_name[name] for name, module in modules.items()}
        handlers: dict[str, dict[str, Any]] = {name: {} for name in modules}
        for name, answer in answers.items():
            owner = next(s for s, service in services.items() if name in service.methods_by_name)
            kind = getattr(modules[owner], services[owner].methods_by_name[name].input_type.name)

            def handle(request: Any, context: Any, name: str = name, answer: Any = answer) -> Any:
                self.requests.append((name, request))
                self.tokens.append(dict(context.invocation_metadata())[TOKEN_KEY])
                try:
                    return answer(request)
                except PenstockError as refusal:
                    context.set_trailing_metadata(((CODE_KEY, str(refusal.code)),))
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal.text)

            handlers[owner][name] = grpc.unary_unary_rpc_method_handler(
                handle, kind.FromString, lambda reply: reply.SerializeToString()
            )
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 2**26)])
        self.server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(services[name].full_name, handlers[name]) for name in modules]
        )
        self.server.add_insecure_port(f"unix:{folder / 'ctld.sock'}")
        self.server.start()
        self.auth = socket.socket(socket.AF_UNIX)
        self.auth.bind(str(folder / "auth.sock"))
        self.auth.listen()
        threading.Thread(target=self._issue_tokens, daemon=True).start()
        self.cluster_file = folder / "cluster.json"
        write_cluster(
            self.cluster_file,
            ClusterFile("wire", "h", str(folder / "ctld.sock"), str(folder / "auth.sock")),
        )

    def _issue_tokens(self) -> None:
        while True:
            try:
                connection, _ = self.auth.accept()
            except OSError:
                return
            with connection, contextlib.suppress(BrokenPipeError):  # the caller may be gone
                connection.sendall(TOKEN)

    def close(self) -> None:
        self.auth.shutdown(socket.SHUT_RDWR)
        self.auth.close()
        self.server.stop(None)


def run_command(
    name: str, *argv: str | bytes, env: dict[bytes, bytes] | None = None, **options: Any
) -> "subprocess.CompletedProcess[bytes]":
    """A real process. Its environment has only required variables and `env`."""
    base = {b"PYTHONPATH": os.fsencode(ROOT), b"PATH": os.environb[b"PATH"], b"HOME": b"/nonexistent"}
    command = [sys.executable, "-m", f"cli.{name}", *argv]
    return subprocess.run(
        command, env=base | (env or {}), capture_output=True, timeout=ANSWER_S, check=False, **options
    )
