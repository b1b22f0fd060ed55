"""The Controller service's methods for certificates: join tokens, joining, renewing.

JoinNode and RenewCertificate are open to unauthenticated callers, who have no certificate yet, or only an expired one:
the proof is in the request (penstock/security/join.py, renew.py). Each certificate leaves a record in the audit log.

Tokens and certificates are on the disk before their holder has them. That takes as long as the disk does, so one thread, which
does nothing else, issues them one after the other: a token is redeemed once, and a stalled disk delays no other caller.
"""

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from cryptography import x509

from ctld.core.records.events import RecordAct
from ctld.rpc.control.usertokens import TokenMethods
from ctld.rpc.gate.context import Context, address_of
from ctld.rpc.gate.refusals import translated
from ctld.runtime.errors import BadRequest
from penstock.security.ca import CertifiedIdentity, host_names, load_denied, to_pem
from penstock.security.join import SECRET_BYTES, admit, check_joins
from penstock.security.renew import end_us, renew
from penstock.v1 import controller_pb2
from penstock.values.refusals import TEXT, Code

T = TypeVar("T")


class Certification(TokenMethods):
    """The methods about certificates, part of ControllerService."""

    async def _issued(self, work: Callable[[], T]) -> T:
        """Runs work on tokens and certificates in their thread."""
        return await asyncio.get_running_loop().run_in_executor(self._services.issuer, work)

    @translated
    async def CreateNodeToken(
        self, request: controller_pb2.CreateNodeTokenRequest, context: Context
    ) -> controller_pb2.CreateNodeTokenReply:
        """Creates a one-use token with which a node of the configuration, or a login host, may join."""
        role = "login" if request.login_host else "node"
        self._require_known(role, request.node_name)
        check_joins(request.node_name, self._controllers(role, request.node_name))
        now_us, secret = self._services.runtime.clock_us(), secrets.token_bytes(SECRET_BYTES)
        create = partial(self._services.join_tokens.create, request.node_name, secret, now_us, role)
        token, expires_at_us = await self._issued(create)
        await self._services.record("create join token", (f"{role} {request.node_name}",))
        return controller_pb2.CreateNodeTokenReply(token=token, expires_at_us=expires_at_us)

    @translated
    async def JoinNode(self, request: controller_pb2.JoinNodeRequest, context: Context) -> controller_pb2.JoinNodeReply:
        """Exchanges a join token for a certificate."""
        certificate, ca = await self._issued(lambda: self._admit(request))
        await self._note(context, "join", request.node_name, "join token")
        return controller_pb2.JoinNodeReply(certificate_pem=certificate, ca_pem=ca)

    @translated
    async def RenewCertificate(
        self, request: controller_pb2.RenewCertificateRequest, context: Context
    ) -> controller_pb2.RenewCertificateReply:
        """Exchanges a certificate for one with a new term."""
        identity, certificate = await self._issued(lambda: self._renew(request))
        link = self._services.registry.by_node.get(identity.name)
        if identity.role == "node" and link is not None:
            link.certificate_end_us = end_us(certificate)
        await self._note(context, "renew certificate", identity.name, "certificate")
        return controller_pb2.RenewCertificateReply(certificate_pem=to_pem(certificate))

    def _admit(self, request: controller_pb2.JoinNodeRequest) -> tuple[bytes, bytes]:
        services = self._services
        now_us = services.runtime.clock_us()
        return admit(
            services.authority(), services.join_tokens, request.token, request.node_name, request.csr_pem, now_us,
            self._controllers("node", request.node_name),
        )  # fmt: skip

    def _renew(self, request: controller_pb2.RenewCertificateRequest) -> tuple[CertifiedIdentity, x509.Certificate]:
        authority = self._services.authority()
        denied = load_denied(authority.folder / "denied.json")  # the present file, even before the next reload
        now_us = self._services.runtime.clock_us()
        return renew(authority, denied, request.certificate_pem, request.csr_pem, now_us, self._require_known)

    def _require_known(self, role: str, name: str) -> None:
        """Checks that nodes are in the configuration. Raises BadRequest."""
        if role == "node" and name not in self._services.runtime.core.state.nodes:
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {name[:64]!r}")

    def _controllers(self, role: str, name: str) -> tuple[str, ...]:
        """Returns the controller's names and addresses, by its configuration and its certificate, which no other host may
        have. A node that the configuration calls so is the controller's machine."""
        state = self._services.runtime.core.state
        if role == "node" and name in state.nodes:
            return ()
        config = state.config
        return (config.controller_host, config.controller_addr, *host_names(self._services.credentials().certificate))

    async def _note(self, context: Context, act: str, host: str, proof: str) -> None:
        who = {"from": address_of(context.peer()), "auth": proof}
        runtime = self._services.runtime
        await runtime.ask(RecordAct(None, act, (f"host {host}",), more=who, reply_to=runtime.new_reply_to()))
