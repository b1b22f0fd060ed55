"""The NodeLink service: accepts a node daemon's stream as a link.

The node is identified by its certificate; a registration under another name ends the call. Everything after the first
message is the link's (ctld/agents/link.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

import grpc

from ctld.agents.gpumessages import GPUS_MAX, facts_of, opinions_of
from ctld.core.records.events import HeldStep, NodeRegistered
from ctld.rpc.gate.auth import current_peer
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as
from ctld.rpc.gate.rights import require_node
from ctld.rpc.gate.services import Services
from ctld.runtime.errors import BadRequest
from penstock.v1 import node_pb2
from penstock.values.refusals import Code

PROTOCOL: Final = 1
REGISTER_TIMEOUT_S: Final = 20.0
#: Each may be answered by a command, of which COMMANDS_MAX wait for a node (agents/link.py).
HELD_STEPS_MAX: Final = 16_000
#: Steps decoded in one turn of the loop: some milliseconds.
SLICE_STEPS: Final = 2_000
TEXT_MAX: Final = 256

#: Translates a time of a node to the controller's clock.
ByOurClock: TypeAlias = Callable[[int], int]

_STATE_NAMES: Final = {value: name for name, value in node_pb2.HeldStep.State.items()}


class NodeLinkService:
    """The service: one method, the stream."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def Connect(
        self, requests: AsyncIterator[node_pb2.NodeMessage], context: Context
    ) -> AsyncIterator[node_pb2.ControllerMessage]:
        """Greets the node, accepts its registration first, then sends commands and receives reports until one side closes."""
        await context.send_initial_metadata(())
        try:
            register = await self._first(requests)
        except BadRequest as error:
            await refuse_as(context, error)
        node = await require_node(context, register.node_name)
        registry, runtime = self._services.registry, self._services.runtime
        link = registry.open(node)
        peer = current_peer()
        link.certificate_end_us = peer.ends_at_us
        link.certificate_serial = peer.serial
        reader: asyncio.Task[None] | None = None
        try:
            link.time.heard(register.at_us)
            held = await _reported_steps(register, link.by_our_clock)
            runtime.post(registration(register, link.link_id, held, link.by_our_clock))
            reader = asyncio.create_task(link.incoming(requests))
            reader.add_done_callback(lambda task: link.end(_why(task)))
            async for message in link.outgoing():
                yield message
        finally:
            if reader is not None:
                reader.cancel()
            registry.close(link, was_registered=True)

    async def _first(self, requests: AsyncIterator[node_pb2.NodeMessage]) -> node_pb2.Register:
        try:
            async with asyncio.timeout(REGISTER_TIMEOUT_S):
                async for message in requests:
                    if message.WhichOneof("kind") != "register":
                        break
                    check(message.register)
                    return message.register
        except TimeoutError:
            raise BadRequest(Code.INVALID_VALUE, f"no registration within {REGISTER_TIMEOUT_S:.0f} s") from None
        raise BadRequest(Code.INVALID_VALUE, "a node's first message must be its registration")


def _why(task: "asyncio.Task[None]") -> str:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, grpc.RpcError):
        return "the connection broke"
    return f"reading it failed: {error!r}" if error else "the node closed it"


def check(register: node_pb2.Register) -> None:
    """Checks the limits of a registration. Raises BadRequest."""
    if register.protocol != PROTOCOL:
        text = f"the node speaks protocol {register.protocol}, this controller {PROTOCOL}: use the same version"
        raise BadRequest(Code.NOT_SUPPORTED, text)
    if len(register.held) > HELD_STEPS_MAX:
        text = f"the registration holds {len(register.held)} steps, the limit is {HELD_STEPS_MAX}"
        raise BadRequest(Code.INVALID_VALUE, f"{text}: stop the node's daemon, and empty its spool (docs/nodes.md)")
    if len(register.inventory.gpus) > GPUS_MAX:
        text = f"the registration has {len(register.inventory.gpus)} GPUs, the limit is {GPUS_MAX}"
        raise BadRequest(Code.INVALID_VALUE, text)
    inventory = register.inventory
    said = (register.instance_id, register.instance_type, register.extra)
    for text in (register.boot_id, register.spool_id, register.version, inventory.os, inventory.arch, *said):
        if len(text) > TEXT_MAX:
            raise BadRequest(Code.INVALID_VALUE, f"a text of the registration is longer than {TEXT_MAX} characters")
    if not register.boot_id or not register.spool_id:
        raise BadRequest(Code.INVALID_VALUE, "the registration has no boot_id or no spool_id")


async def _reported_steps(register: node_pb2.Register, by_our_clock: ByOurClock) -> tuple[HeldStep, ...]:
    """Returns the node's steps, decoded in slices between which other calls are served."""
    found: list[HeldStep] = []
    for at in range(0, len(register.held), SLICE_STEPS):
        found += [_reported_step(step, by_our_clock) for step in register.held[at : at + SLICE_STEPS]]
        await asyncio.sleep(0)
    return tuple(found)


def _reported_step(step: node_pb2.HeldStep, by_our_clock: ByOurClock) -> HeldStep:
    key, state = step.key, _STATE_NAMES.get(step.state, "UNKNOWN")
    return HeldStep(
        key.job_id,
        key.attempt,
        key.step_id,
        state,
        step.epoch,
        step.suspended,
        step.lease_s,
        step.lease_grace_s,
        by_our_clock(step.start_at_us),
        step.told,
    )


def registration(
    register: node_pb2.Register,
    link_id: int,
    held: tuple[HeldStep, ...],
    by_our_clock: ByOurClock = lambda node_us: node_us,
) -> NodeRegistered:
    """Decodes a registration to an event. `by_our_clock` translates the node's times."""
    inventory = register.inventory
    gpus: dict[str, int] = {}
    for gpu in inventory.gpus:
        if gpu.mig_enabled:  # its instances are allocated instead
            continue
        gpus[gpu.type] = gpus.get(gpu.type, 0) + 1
    return NodeRegistered(
        node=register.node_name,
        link_id=link_id,
        boot_id=register.boot_id,
        spool_id=register.spool_id,
        version=register.version,
        cpus=inventory.cpus,
        sockets=inventory.sockets,
        cores_per_socket=inventory.cores_per_socket,
        threads_per_core=inventory.threads_per_core,
        real_memory_mb=inventory.real_memory_mb,
        tmp_disk_mb=inventory.tmp_disk_mb,
        gres=tuple(("gpu", type_, count) for type_, count in gpus.items()),
        held=held,
        os=inventory.os,
        arch=inventory.arch,
        boot_at_us=inventory.boot_at_us,
        started_at_us=by_our_clock(register.started_at_us),
        pretended=inventory.pretended,
        spool_lost=register.spool_lost,
        stream_port=register.stream_port if register.stream_port <= 0xFFFF else 0,
        stream_tls=register.stream_tls,
        gpus=facts_of(inventory),
        gpus_at_us=inventory.gpus_at_us,
        gpu_opinions=opinions_of(inventory),
        gpu_driver=inventory.gpu_driver[:TEXT_MAX],
        cuda_version=inventory.cuda_version[:TEXT_MAX],
        nvml_version=inventory.nvml_version[:TEXT_MAX],
        gpu_constraint=inventory.gpu_constraint[:TEXT_MAX],
        gpu_why=inventory.gpu_why[:TEXT_MAX],
        epoch_seen=register.epoch_seen,
        job_id_seen=register.job_id_seen,
        instance_id=register.instance_id,
        instance_type=register.instance_type,
        extra=register.extra,
    )
