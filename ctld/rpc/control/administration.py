"""The Controller service's administrative methods: configuration by hand, log.

Settings of SetController are valid until the controller reads its configuration again; ShowConfig shows them meanwhile.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from ctld.core.records.events import Actor, Role, UpdateNodes, UpdatePartition
from ctld.rpc.gate.auth import caller, current_peer
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.hostlists import expand_nodes
from ctld.rpc.gate.refusals import translated
from ctld.rpc.gate.services import Services
from ctld.runtime.debuglog import DebugLog
from ctld.runtime.errors import BadRequest
from penstock.config.cgroupconf import SHOWN_CGROUP
from penstock.config.write import render
from penstock.v1 import controller_pb2
from penstock.values.dates import format_date
from penstock.values.debugflags import find_flag
from penstock.values.refusals import TEXT, Code
from penstock.values.urls import place_without_secret

#: Slurm's log levels (slurm.conf(5), SlurmctldDebug), from the least to the most, and the equivalent here.
DEBUG_LEVELS: Final = {
    "quiet": logging.CRITICAL + 10,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "info": logging.INFO,
    "verbose": logging.INFO,
    "debug": logging.DEBUG,
    "debug2": logging.DEBUG,
    "debug3": logging.DEBUG,
    "debug4": logging.DEBUG,
    "debug5": logging.DEBUG,
}
CGROUP_SECTION: Final = "Cgroup Support Configuration"
#: Keys of a node that are part of the configuration, in all their spellings.
NODE_CONFIG_KEYS: Final = ("feature", "features", "availablefeatures", "nodeaddr", "nodehostname", "weight")
FLAGS_MAX: Final = 64
#: States that root on a node may set for that node: a compromised node gains nothing by taking itself out of service.
OWN_NODE_STATES: Final = ("drain", "fail")
OWN_NODE_KEYS: Final = frozenset(("state", "reason"))


@dataclass
class Temporary:
    """The settings that SetController has changed. The flags are those of the loop's `DebugLog`."""

    debug: DebugLog
    level: str = ""

    def shown(self, pairs: dict[str, str]) -> None:
        """Applies them to the shown configuration."""
        if self.level:
            pairs["SlurmctldDebug"] = self.level
        pairs["DebugFlags"] = ",".join(self.debug.flags) or "(null)"

    def change(self, level: str, on: Sequence[str], off: Sequence[str]) -> None:
        """Changes a setting, and the log's level with it. Raises BadRequest."""
        _check_debug(level, on, off)
        if level:
            self.level = level
            logging.getLogger("penstock.audit").setLevel(logging.INFO)  # refusals are logged at any level
            logging.getLogger("penstock").setLevel(DEBUG_LEVELS[level])
        if on or off:
            self.debug.change(filter(None, map(find_flag, on)), filter(None, map(find_flag, off)))

    def forget(self) -> None:
        """Drops them after the configuration was read again."""
        self.level = ""
        logging.getLogger("penstock").setLevel(logging.NOTSET)


def _check_debug(level: str, on: Sequence[str], off: Sequence[str]) -> None:
    """Raises BadRequest for a level or flag that there is not."""
    if level and level not in DEBUG_LEVELS:
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: debug level {level[:32]}")
    if len(on) + len(off) > FLAGS_MAX:
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: more than {FLAGS_MAX} debug flags")
    if unknown := next((flag for flag in (*on, *off) if find_flag(flag) is None), ""):
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: debug flag {unknown[:32]}")


@dataclass
class Administration:
    """Methods of the service. `temporary` is shared by all of them."""

    _services: Services
    temporary: Temporary = field(init=False)

    def __post_init__(self) -> None:
        self.temporary = Temporary(self._services.runtime.debug)

    @translated
    async def UpdateNodes(self, request: controller_pb2.UpdateNodesRequest, context: Context) -> controller_pb2.Empty:
        """scontrol update nodename=: configuration changes first, as they may be refused as a whole."""
        changes = dict(request.changes)
        names = expand_nodes(request.names)
        actor = _root_of_node(names, changes) if current_peer().root_of else caller()
        config: dict[str, str] = {key: changes.pop(key) for key in NODE_CONFIG_KEYS if key in changes}
        if "gres" in changes and "state" not in changes:  # with a state it names GPUs
            config["gres"] = changes.pop("gres")
        if "activefeatures" in changes:
            self._check_active(names, changes.pop("activefeatures"), config)
        if config:
            act = self._services.act("update node", names, asked=config)
            await self._services.amender.update_nodes(names, config, act)
        if changes or not config:
            await self._services.ask(UpdateNodes(actor, names, changes, self._services.runtime.new_reply_to()), context)
        return controller_pb2.Empty()

    def _check_active(self, names: Sequence[str], text: str, config: dict[str, str]) -> None:
        """Checks that all available features are active; a part of them cannot be switched off."""
        wanted_features = {word for word in text.split(",") if word}
        said = next((config[key] for key in ("availablefeatures", "features", "feature") if key in config), None)
        for name in names:
            node = self._services.runtime.core.state.nodes.get(name)
            available = set(node.features if node is not None else ()) if said is None else {*said.split(",")} - {""}
            if not wanted_features <= available:
                raise BadRequest(Code.FEATURES_NOT_AVAILABLE, TEXT[Code.FEATURES_NOT_AVAILABLE])
            if wanted_features != available:
                text = "features that are available are active: set AvailableFeatures"
                raise BadRequest(Code.NOT_SUPPORTED, f"{TEXT[Code.NOT_SUPPORTED]}: {text}")

    @translated
    async def UpdatePartition(
        self, request: controller_pb2.UpdatePartitionRequest, context: Context
    ) -> controller_pb2.Empty:
        """scontrol update partitionname=."""
        changes = dict(request.changes)
        to = changes.pop("state", "")
        if changes:
            act = self._services.act("update partition", (request.name,), asked=changes)
            await self._services.amender.update_partition(request.name, changes, act)
        if to or not changes:
            event = UpdatePartition(caller(), request.name, {"state": to}, self._services.runtime.new_reply_to())
            await self._services.ask(event, context)
        return controller_pb2.Empty()

    @translated
    async def CreatePartition(
        self, request: controller_pb2.CreatePartitionRequest, context: Context
    ) -> controller_pb2.Empty:
        """scontrol create partitionname=."""
        changes = dict(request.changes)
        act = self._services.act("create partition", (request.name,), asked=changes)
        await self._services.amender.create_partition(request.name, changes, act)
        return controller_pb2.Empty()

    @translated
    async def DeletePartition(
        self, request: controller_pb2.DeletePartitionRequest, context: Context
    ) -> controller_pb2.Empty:
        """scontrol delete partitionname=."""
        act = self._services.act("delete partition", (request.name,))
        await self._services.amender.delete_partition(request.name, act)
        return controller_pb2.Empty()

    @translated
    async def CreateNodes(self, request: controller_pb2.CreateNodesRequest, context: Context) -> controller_pb2.Empty:
        """scontrol create nodename=."""
        names, changes = expand_nodes(request.names), dict(request.changes)
        act = self._services.act("create node", names, asked=changes)
        await self._services.amender.create_nodes(names, changes, act)
        return controller_pb2.Empty()

    @translated
    async def DeleteNodes(self, request: controller_pb2.DeleteNodesRequest, context: Context) -> controller_pb2.Empty:
        """scontrol delete nodename=."""
        names = expand_nodes(request.names)
        await self._services.amender.delete_nodes(names, self._services.act("delete node", names))
        return controller_pb2.Empty()

    @translated
    async def SetController(
        self, request: controller_pb2.SetControllerRequest, context: Context
    ) -> controller_pb2.Empty:
        """scontrol setdebug, setdebugflags, schedloglevel, fsdampeningfactor."""
        if request.HasField("schedule_log"):
            raise BadRequest(Code.DISABLED_STATE, f"{TEXT[Code.DISABLED_STATE]}: there is no SlurmSchedLogFile")
        if request.nodes:
            self._set_node_logging(request)
        else:
            self.temporary.change(request.debug_level, request.debug_flags_on, request.debug_flags_off)
        asked = {
            "debug_level": request.debug_level,
            "nodes": request.nodes,
            "debug_flags_on": list(request.debug_flags_on),
            "debug_flags_off": list(request.debug_flags_off),
        }
        if any(asked.values()):
            await self._services.record("set controller", asked={k: v for k, v in asked.items() if v})
        if factor := request.fair_share_dampening_factor:
            act = self._services.act("set controller", asked={"fair_share_dampening_factor": factor})
            await self._services.amender.set_dampening_factor(factor, act)
        return controller_pb2.Empty()

    def _set_node_logging(self, request: controller_pb2.SetControllerRequest) -> None:
        """scontrol setdebug LEVEL nodes=, setdebugflags FLAG nodes=. Raises BadRequest."""
        names = expand_nodes(request.nodes)
        known = self._services.runtime.core.state.nodes
        if unknown := next((name for name in names if name not in known), ""):
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {unknown[:64]}")
        level = request.debug_level
        on = request.debug_flags_on
        off = request.debug_flags_off
        if not (on or off or level):
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: neither a debug level nor a flag")
        _check_debug(level, on, off)
        flags_on = list(filter(None, map(find_flag, on)))
        flags_off = list(filter(None, map(find_flag, off)))
        self._services.registry.set_logging(names, level, flags_on, flags_off)

    @translated
    async def ShowConfig(
        self, request: controller_pb2.ShowConfigRequest, context: Context
    ) -> controller_pb2.ShowConfigReply:
        """Returns the configuration in force."""
        state, now_us = self._services.runtime.core.state, self._services.runtime.clock_us()
        pairs = dict(state.config.shown)
        pairs |= {
            "BOOT_TIME": format_date(self._services.boot_at_us, now_us),
            "NEXT_JOB_ID": str(state.next_job_id),
        }
        self.temporary.shown(pairs)
        lines = sorted(pairs.items(), key=lambda pair: pair[0].lower())
        return controller_pb2.ShowConfigReply(
            lines=[
                controller_pb2.ConfigLine(key=key, value=value, section=CGROUP_SECTION if key in SHOWN_CGROUP else "")
                for key, value in lines
            ],
            at_us=now_us,
        )

    @translated
    async def RenderConfig(
        self, request: controller_pb2.RenderConfigRequest, context: Context
    ) -> controller_pb2.RenderConfigReply:
        """Returns the configuration in force as a slurm.conf. The database's address is omitted, and so are JobCompLoc
        and PenstockTraceUrl with a secret: all users may read the answer."""
        state = self._services.runtime.core.state
        partitions = tuple(replace(one.config, state=one.state) for one in state.partition_list)
        loc, url = (
            place if place_without_secret(place) == place else ""
            for place in (state.config.job_comp_loc, state.config.trace_url)
        )
        config = replace(
            state.config, penstock_database_url="", penstock_database_read_url="", penstock_database_schema="",
            job_comp_loc=loc, trace_url=url, partitions=partitions,
        )  # fmt: skip
        try:
            text = await asyncio.to_thread(render, config)
        except ValueError as error:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from None
        return controller_pb2.RenderConfigReply(text=text)


def _root_of_node(names: Sequence[str], changes: Mapping[str, str]) -> Actor:
    """Returns root as an administrator, for a change that root on a node may make from there. Raises BadRequest."""
    node = current_peer().root_of
    is_drain = changes.get("state", "").lower() in OWN_NODE_STATES and changes.keys() <= OWN_NODE_KEYS
    if list(names) != [node] or not is_drain:
        text = f"from node {node} only {node} can be changed, to State=DRAIN or FAIL with a Reason; run it on the controller"
        raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {text}")
    return msgspec.structs.replace(caller(), role=Role.ADMINISTRATOR)
