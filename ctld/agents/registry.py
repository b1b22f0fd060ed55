"""The registry of links: effects are addressed to nodes, and are sent on the stream that the core has admitted last.

A stream exists before the core has judged its registration; until then only AdmitNode reaches it, by its number. A
newer admitted stream of the same node ends the older one.
"""

import asyncio
import logging
import time
from collections.abc import Container, Iterable, Sequence

# Any: an effect of any of the kinds that go to nodes
from typing import Any

from ctld.agents.clockwatch import ClockWatch
from ctld.agents.launch import FILL
from ctld.agents.link import HEARTBEAT_MS, SILENT_BEATS, NodeLink
from ctld.agents.settings import node_settings
from ctld.agents.specs import SpecCache
from ctld.core.records.effects import AckReports, AdmitNode, Effect, LaunchStep
from ctld.core.records.events import NodeDisconnected
from ctld.runtime.loop import Runtime
from penstock.repeats import Repeats
from penstock.v1 import node_pb2

log = logging.getLogger("penstock.ctld")


class LinkRegistry:
    """All links. Takes the node effects of a runtime."""

    def __init__(self, runtime: Runtime, specs: SpecCache, version: str, secret: bytes = b"") -> None:
        self.links: dict[int, NodeLink] = {}
        self.by_node: dict[str, NodeLink] = {}  # admitted
        self._runtime = runtime
        self._specs = specs
        self._version = version
        self._secret = secret
        self._refusals = Repeats()
        self._next_link_id = 1
        self._log_levels: dict[str, str] = {}  # by node, of scontrol setdebug
        self._debug_flags: dict[str, tuple[str, ...]] = {}  # by node, of scontrol setdebugflags
        self._clocks = ClockWatch(runtime, self.by_node)
        self._loop = asyncio.get_running_loop()
        commands: list[type[Effect]] = [LaunchStep, *FILL]
        for kind in commands:
            runtime.handlers[kind] = self._send
        runtime.handlers[AdmitNode] = self._admit
        runtime.handlers[AckReports] = self._acknowledge
        self._watched_at = time.monotonic()
        self._watcher = self._loop.call_later(HEARTBEAT_MS / 1000, self._watch)

    def open(self, node: str) -> NodeLink:
        """Adds a stream of that node, by its certificate; not admitted yet."""
        link = NodeLink(node, self._next_link_id, self._runtime, self._specs, self._secret)
        link.judge_clock = self._clocks.judge
        self._next_link_id += 1
        self.links[link.link_id] = link
        self._runtime.metrics.links_opened += 1
        return link

    def close(self, link: NodeLink, was_registered: bool) -> None:
        """Removes a stream that is over."""
        link.end("the stream is over")
        del self.links[link.link_id]
        if self.by_node.get(link.node) is link:
            del self.by_node[link.node]
        if was_registered:
            self._runtime.post(NodeDisconnected(link.node, link.link_id))

    def stop(self) -> None:
        """Ends all streams in order: no controller is left then that would start the nodes' jobs elsewhere."""
        self._watcher.cancel()
        for link in list(self.links.values()):
            link.finish(node_pb2.ControllerMessage(farewell=node_pb2.Farewell()))

    def _send(self, effect: Any) -> None:
        link = self.by_node.get(effect.node)
        if link is not None:
            link.send(effect)

    def _admit(self, effect: AdmitNode) -> None:
        link = self.links.get(effect.link_id)
        if link is None:
            newer = self.by_node.get(effect.node)
            if newer is not None and not effect.refusal:
                newer.end("an older stream's registration came after its own; it must register again")
            return
        answer = node_pb2.ControllerMessage(registered=self._registered(effect.node, effect.refusal))
        if effect.refusal:
            if line := self._refusals.new(effect.node, effect.refusal):
                log.warning("node %s: registration refused: %s", effect.node, line)
            link.finish(answer)
            return
        older = self.by_node.get(effect.node)
        if older is not None and older is not link:
            older.end("a newer stream of the same node was admitted")
        self.by_node[effect.node] = link
        link.send(answer)
        log.info("node %s registered, stream %d", effect.node, effect.link_id)

    def _registered(self, node: str, refusal: str) -> node_pb2.Registered:
        config = self._runtime.core.state.config
        return node_pb2.Registered(
            epoch=self._runtime.epoch,
            heartbeat_interval_ms=HEARTBEAT_MS,
            refusal=refusal,
            cluster_name=config.cluster_name,
            kill_wait_s=config.kill_wait_s,
            unkillable_step_timeout_s=config.unkillable_step_timeout_s,
            controller_version=self._version,
            settings=self._settings(node),
            command_port=config.slurmctld_port,
        )

    def end_denied(self, serials: Container[int]) -> None:
        """Ends the streams that were opened with one of these certificates, which count no longer."""
        for link in list(self.links.values()):
            if link.certificate_serial in serials:
                link.end("its certificate has been revoked")

    def send_settings(self) -> None:
        """Sends the settings to all nodes after the configuration was read again: levels and flags set by hand end."""
        self._log_levels.clear()
        self._debug_flags.clear()
        for node, link in self.by_node.items():
            link.send(node_pb2.ControllerMessage(settings=self._settings(node)))

    def set_logging(self, nodes: Iterable[str], level: str, on: Sequence[str], off: Container[str]) -> None:
        """Sets the level ("" = as it is) of these nodes' logs, and adds and removes debug flags, until the configuration is read
        again; nodes that are away get them when they register."""
        for node in nodes:
            if level:
                self._log_levels[node] = level
            if on or off:
                flags = self._debug_flags.get(node, self._runtime.core.state.config.debug_flags)
                self._debug_flags[node] = tuple(flag for flag in dict.fromkeys((*flags, *on)) if flag not in off)
            if link := self.by_node.get(node):
                link.send(node_pb2.ControllerMessage(settings=self._settings(node)))

    def _settings(self, node: str) -> node_pb2.NodeSettings:
        settings = node_settings(self._runtime.core.state.config, node)
        settings.log_level = self._log_levels.get(node, settings.log_level)
        if node in self._debug_flags:
            settings.debug_flags[:] = self._debug_flags[node]
        return settings

    def _acknowledge(self, effect: AckReports) -> None:
        link = self.links.get(effect.link_id)
        if link is not None:
            ack = node_pb2.ReportAck(through_sequence=effect.sequence, spool_id=effect.spool_id)
            link.send(node_pb2.ControllerMessage(report_ack=ack))

    def _watch(self) -> None:
        """Ends streams that have timed out; a delayed check proves nothing, as then this process did not read. Compares
        clocks.
        """
        limit_s = HEARTBEAT_MS / 1000 * SILENT_BEATS
        now = time.monotonic()
        was_late = now - self._watched_at > 2 * HEARTBEAT_MS / 1000
        self._watched_at = now
        oldest = 0.0 if was_late else now - limit_s
        for link in list(self.links.values()):
            if link.heard_at < oldest:
                link.end(f"silent for {limit_s:.0f} s")
        self._clocks.judge_all()
        self._watcher = self._loop.call_later(HEARTBEAT_MS / 1000, self._watch)
