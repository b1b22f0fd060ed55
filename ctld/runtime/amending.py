"""Changes the configuration by hand: parsed in the syntax of slurm.conf, checked, applied, stored.

Changes are serialised with each other and with reloads: each is made to the configuration in force, so concurrent ones
would be lost. Code that replaces the configuration holds `lock`. penstock/config/amend.py has the meaning of a change;
conflicts with jobs are checked here for deletions, and by the core for all else (layout.config_conflicts).
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from ctld.core.records.effects import Refusal
from ctld.core.records.events import LoadConfig, RecordAct
from ctld.core.state.state import ClusterState
from ctld.runtime.errors import BadRequest
from ctld.runtime.loop import Runtime
from penstock.config import changes as config_changes
from penstock.config.amend import NEW_NODE_STATES, NODE_KEYS, amend, canonical, resolved
from penstock.values.amendment import NODE, PARTITION, Amendment
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.refusals import TEXT, Code
from penstock.values.states import END_STATES
from penstock.values.text import check_name

#: Keywords that mean the same for a node.
_NODE_WORDS = {"features": "feature", "availablefeatures": "feature", "feature": "feature"}
#: Keys that exist once in a cluster.
DEFAULT = "Default"


class Amender:
    """Applies scontrol's changes of nodes and partitions. `folder` is that of slurm.conf; `act`: for the audit log."""

    def __init__(self, runtime: Runtime, folder: str) -> None:
        self._runtime = runtime
        self._folder = folder
        self.lock = asyncio.Lock()

    @property
    def _state(self) -> ClusterState:
        return self._runtime.core.state

    async def update_partition(self, name: str, changes: Mapping[str, str], act: RecordAct | None = None) -> None:
        """Changes keys of an existing partition. Raises BadRequest, NotTaken."""
        async with self.lock:
            if name not in self._state.partitions:
                raise _bad(Code.INVALID_PARTITION, name[:64])
            await self._take([self._changed(PARTITION, name, changes)], act)

    async def create_partition(self, name: str, changes: Mapping[str, str], act: RecordAct | None = None) -> None:
        """Creates a partition that is not in the file. Raises BadRequest, NotTaken."""
        async with self.lock:
            _check_name(name, Code.INVALID_PARTITION)
            if name in self._state.partitions or name.upper() in ("ALL", "DEFAULT"):
                raise _bad(Code.PARTITION_EXISTS, name)
            await self._take([Amendment(PARTITION, name, _pairs(PARTITION, changes), made=True)], act)

    async def delete_partition(self, name: str, act: RecordAct | None = None) -> None:
        """Raises BadRequest when jobs are in it, NotTaken."""
        async with self.lock:
            if name not in self._state.partitions:
                raise _bad(Code.INVALID_PARTITION, name[:64])
            users = [
                job.job_id
                for job in self._state.jobs.records()
                if job.state not in END_STATES and (name == job.partition or name in job.request.partitions)
            ]
            if users:
                raise _bad(Code.PARTITION_IN_USE, f"job {users[0]}")
            await self._remove([self._state.amended.by_key.get((PARTITION, name), Amendment(PARTITION, name))], act)

    async def create_nodes(
        self, names: Iterable[str], changes: Mapping[str, str], act: RecordAct | None = None
    ) -> None:
        """Creates dynamic nodes. Raises BadRequest, NotTaken."""
        async with self.lock:
            listed = list(dict.fromkeys(names))
            lowered = {key.lower(): value for key, value in changes.items()}
            if lowered.get("state", "").upper() not in NEW_NODE_STATES:
                text = f"a node is created with State={' or State='.join(NEW_NODE_STATES)}"
                raise _bad(Code.INVALID_NODE_STATE, text)
            if there := [name for name in listed if name in self._state.nodes]:
                raise _bad(Code.INVALID_NODE_NAME, f"{there[0]} exists already")
            for name in listed:
                _check_name(name, Code.INVALID_NODE_NAME)
            pairs = {key: value for key, value in lowered.items() if key not in ("nodeaddr", "nodehostname", "port")}
            spread = {
                key: _spread(key, lowered[key], listed)
                for key in ("nodeaddr", "nodehostname", "port")
                if key in lowered
            }
            await self._take(
                [
                    Amendment(NODE, name, _pairs(NODE, pairs | {k: v[i] for k, v in spread.items()}), made=True)
                    for i, name in enumerate(listed)
                ],
                act,
            )

    async def delete_nodes(self, names: Iterable[str], act: RecordAct | None = None) -> None:
        """Deletes nodes that were created by hand, and have neither jobs nor a reservation. Raises BadRequest,
        NotTaken.
        """
        async with self.lock:
            gone = []
            for name in dict.fromkeys(names):
                node, amendment = self._state.nodes.get(name), self._state.amended.by_key.get((NODE, name))
                if node is None:
                    raise _bad(Code.INVALID_NODE_NAME, name[:64])
                if amendment is None or not amendment.made:
                    raise _bad(Code.INVALID_NODE_STATE, f"{name} is in slurm.conf: remove it there and reconfigure")
                if node.jobs:
                    raise _bad(Code.NODES_BUSY, f"{name} has jobs")
                if reserved := [
                    r.name for r in self._state.reservations.values() if any(p.node == name for p in r.parts)
                ]:
                    raise _bad(Code.NODES_BUSY, f"{name} is in the reservation {reserved[0]}")
                gone.append(amendment)
            await self._remove(gone, act)

    async def update_nodes(
        self, names: Iterable[str], changes: Mapping[str, str], act: RecordAct | None = None
    ) -> None:
        """Changes keys of nodes that are part of the configuration. Raises BadRequest, NotTaken."""
        async with self.lock:
            known = self._state.nodes
            listed = list(dict.fromkeys(names))
            if [name.upper() for name in listed] == ["ALL"] and listed[0] not in known:
                listed = list(known)
            if unknown := [name for name in listed if name not in known]:
                raise _bad(Code.INVALID_NODE_NAME, unknown[0][:64])
            words = {_NODE_WORDS.get(key.lower(), key.lower()): value for key, value in changes.items()}
            each = [dict(words) for _ in listed]
            for key in [key for key in words if key in ("nodeaddr", "nodehostname")]:
                for mine, value in zip(each, _spread(key, words[key], listed), strict=True):
                    mine[key] = value
            await self._take([self._changed(NODE, name, mine) for name, mine in zip(listed, each, strict=True)], act)

    async def set_dampening_factor(self, factor: int, act: RecordAct | None = None) -> None:
        """Changes FairShareDampeningFactor until the file is read again. Raises BadRequest, NotTaken."""
        async with self.lock:
            config = replace(self._state.config, fair_share_dampening_factor=factor)
            shown = dict(config.shown) | {"FairShareDampeningFactor": str(factor)}
            await self._load(replace(config, shown=tuple(shown.items())), (), (), act)

    def _changed(self, kind: str, name: str, changes: Mapping[str, str]) -> Amendment:
        config, pairs = self._state.config, []
        for key, value in _pairs(kind, changes):
            if kind == NODE and key not in NODE_KEYS:
                raise _bad(Code.NOT_SUPPORTED, f"{key}= cannot be changed of a node; known: {', '.join(NODE_KEYS)}")
            try:
                pairs.append((key, resolved(config, kind, name, key, value)))
            except BadValue as problem:
                raise _bad(Code.INVALID_VALUE, str(problem)) from None
        return Amendment(kind, name, tuple(pairs))

    async def _take(self, amendments: list[Amendment], act: RecordAct | None) -> None:
        config = self._state.config
        for amendment in amendments:
            config = self._amended(config, amendment)
        mine = self._state.amended.by_key
        merged = {
            one.key: mine[one.key].with_pairs(one.pairs) if one.key in mine and not one.made else one
            for one in amendments
        }
        if any((DEFAULT, "YES") in _upper(one) for one in amendments):  # removed permanently, also after a restart
            for key, other in mine.items():
                if key not in merged and any(name == DEFAULT for name, _ in other.pairs):
                    merged[key] = other._replace(pairs=tuple(pair for pair in other.pairs if pair[0] != DEFAULT))
        await self._load(config, tuple(merged.values()), (), act)

    async def _remove(self, amendments: list[Amendment], act: RecordAct | None) -> None:
        config = self._state.config
        for amendment in amendments:
            config = self._amended(config, amendment._replace(gone=True))
        stays = tuple(one._replace(gone=True, pairs=()) for one in amendments if not one.made)
        await self._load(config, stays, tuple(one.key for one in amendments if one.made), act)

    def _amended(self, config: Config, amendment: Amendment) -> Config:
        try:
            return amend(config, amendment, self._folder)
        except BadValue as problem:
            raise _bad(Code.INVALID_VALUE, f"{amendment.name}: {problem}") from None

    async def _load(
        self,
        config: Config,
        amendments: tuple[Amendment, ...],
        dropped: tuple[tuple[str, str], ...],
        act: RecordAct | None,
    ) -> None:
        if act is not None:
            act = msgspec.structs.replace(act, after={"changes": list(config_changes(self._state.config, config))})
        event = LoadConfig(config, self._runtime.new_reply_to(), amendments, dropped, act, by_hand=True)
        body = await self._runtime.ask(event)
        if isinstance(body, Refusal):
            raise BadRequest(Code(body.code), body.text)


def _upper(amendment: Amendment) -> list[tuple[str, str]]:
    return [(key, value.upper()) for key, value in amendment.pairs]


def _bad(code: Code, detail: str) -> BadRequest:
    return BadRequest(code, f"{TEXT[code]}: {detail}" if detail else TEXT[code])


def _check_name(name: str, code: Code) -> None:
    try:
        check_name(name, "name")
    except BadValue as problem:
        raise _bad(code, str(problem)) from None
    if not name or any(char in name for char in " ,=[]#\"'"):
        raise _bad(code, repr(name[:64]))


def _pairs(kind: str, changes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the changes with the keys as slurm.conf spells them."""
    try:
        return tuple((canonical(kind, key), value) for key, value in changes.items())
    except BadValue as problem:
        raise _bad(Code.NOT_SUPPORTED, str(problem)) from None


def _spread(key: str, text: str, names: list[str]) -> list[str]:
    """Returns one value for all, or one for each."""
    try:
        listed = [text] if ":" in text else expand(text)
    except BadValue as problem:
        raise _bad(Code.INVALID_VALUE, f"{key}: {problem}") from None
    if len(listed) == 1:
        return listed * len(names)
    if len(listed) != len(names):
        raise _bad(Code.INVALID_VALUE, f"{key} names {len(listed)}, NodeName {len(names)} ({compress(names[:64])})")
    return listed
