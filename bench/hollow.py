"""Hollow nodes: any number of nodes of a cluster in one process, with the real protocol and without job processes.

    python -m bench.hollow --conf slurm.conf [--ends-per-s N] [--open-per-s N] [--gpus]

Each node of the configuration is the node daemon's own machine (`nodedaemon.core`) and its own stream (`nodedaemon.daemon.link`,
mutual TLS with a certificate of its own), so the rules of the protocol are those of the daemon. The layers below are
stubs: the journal stores nothing, and instead of a launch a step begins at once and ends after the seconds of the
`sleep` in its script. A request to end a step ends it at once, by SIGTERM.

Nodes have the sizes that the configuration gives them. With `--gpus` their GPUs are devices with UUIDs, of which each heartbeat
has readings (bench/hollowgpus.py); without it they are numbers only. Certificates come from the CA in the controller's state
folder and stay in memory.

Words on standard input: `ends N` ends N running steps a second, those that began first; `profile G` has each end follow a
profile of an hour with G GPUs (`profile none`: no more); `stats` prints a line of JSON. At
its end all nodes leave. When all nodes are registered, a line of JSON says so.
"""

import argparse
import asyncio
import json
import logging
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from bench.hollowgpus import HollowGpus
from nodedaemon.core import messages as core
from nodedaemon.core.machine import SIGTERM, NodeMachine
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon.daemon import PROTOCOL, Clock
from nodedaemon.daemon.link import Link, LinkTarget
from nodedaemon.launch import wire
from nodedaemon.spool.contact import ControllerContact
from penstock import __version__
from penstock.config import load
from penstock.security.ca import Authority, key_to_pem, load_ca, make_key, to_pem
from penstock.v1 import node_pb2
from penstock.values.config import NodeConfig
from penstock.values.profile import COLUMNS, GPU, HOST, encode_profile
from penstock.values.timeline import SampleLine

#: Connections opened in a second: each is a TLS handshake for both sides.
OPEN_PER_S = 100
#: The interval between checks of the steps to end.
ENDS_PAUSE_S = 0.05
SIGKILL = 9
#: The pid shown for every job.
NO_PID = 1
_SLEEP = re.compile(rb"^\s*sleep\s+([0-9]+(?:\.[0-9]+)?)\s*$", re.MULTILINE)


class Steps:
    """The steps of all nodes: when each ends, and how many there were."""

    def __init__(self) -> None:
        self.running: dict[tuple[str, StepKey], Callable[[], None]] = {}  # in the order of their begin
        self.began = 0
        self.ended = 0
        self.profile = b""  # reported before each end
        self._per_s = 0.0
        self._owed = 0.0

    def set_rate(self, per_s: float) -> None:
        """Sets the number of steps to end per second."""
        self._per_s = per_s
        self._owed = 0.0

    async def end_some(self) -> None:
        """Ends steps at the rate, until cancelled."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(ENDS_PAUSE_S)
            now = loop.time()
            self._owed += self._per_s * (now - before)
            before = now
            while self._owed >= 1:
                self._owed -= 1
                if self.running:
                    next(iter(self.running.values()))()


class NoContact(ControllerContact):
    """No process is there to hold a lease: the time of the last contact is kept nowhere."""

    def __init__(self) -> None:
        self._rests = False
        self._at_ns = 0

    def _write(self, value: int) -> None:
        pass


class Hollow:
    """One node."""

    def __init__(
        self,
        config: NodeConfig,
        target: LinkTarget,
        clock: Clock,
        steps: Steps,
        on_up: Callable[[], None],
        gpus: HollowGpus | None,
    ) -> None:
        """`gpus`: what its heartbeats say of its GPUs; None: nothing."""
        self._config = config
        self._gpus = gpus
        self._clock = clock
        self._steps = steps
        self._on_up = on_up
        self._started_at_us = clock.now_us()
        self._timers: dict[StepKey, asyncio.TimerHandle] = {}
        self._machine = NodeMachine()
        self._machine.replay([core.SpoolCreated(f"hollow-{config.name}"), core.BootSeen("hollow")])
        self._inventory = inventory(config, gpus)
        facts = wire.NodeFacts(config.name, config.name, "")
        facts.site.found(self._inventory)
        self.link = Link(
            target,
            facts,
            self._registration,
            self._heartbeat,
            self.post,
            lambda registered: None,
            NoContact(),
            lambda ticket: None,
        )
        self._doers: dict[type[core.NodeEffect], Callable[[Any], None]] = {
            core.AckCommand: lambda effect: self.link.send(effect.link, wire.ack_message(effect)),
            core.SendReport: self._report,
            core.StartStep: self._start,
            core.DeliverSignal: self._signal,
            core.DropLink: lambda effect: self.link.drop(effect.link, effect.why),
        }

    def post(self, event: core.NodeCoreEvent) -> None:
        """The daemon's loop, with an empty journal."""
        self._machine.step(self._clock.now_us(), event)
        batch = self._machine.seal()
        if batch is not None:
            for effect in batch.effects:
                doer = self._doers.get(type(effect))
                if doer is not None:
                    doer(effect)
        if type(event) is core.LinkUp:
            self._on_up()

    def _report(self, effect: core.SendReport) -> None:
        self.link.send(effect.link, wire.report_message(effect, "hollow", self._machine.spool_id))

    def _start(self, effect: core.StartStep) -> None:
        """The launcher's part: begin at once, end in time. The machine is not entered again from its own effects."""
        key, loop = effect.key, asyncio.get_running_loop()
        loop.call_soon(self._begin, key, self._clock.now_us())
        found = _SLEEP.search(effect.order.script)
        self._timers[key] = loop.call_later(float(found[1]) if found else 0.0, self._end, key)

    def _begin(self, key: StepKey, at_us: int) -> None:
        self._steps.began += 1
        self._steps.running[self._config.name, key] = lambda: self._end(key)
        self.post(core.StepBegan(key, at_us, NO_PID))

    def _signal(self, effect: core.DeliverSignal) -> None:
        fatal = [number for number in effect.signals if number in (SIGTERM, SIGKILL)]
        if fatal:
            asyncio.get_running_loop().call_soon(self._end, effect.key, fatal[0])

    def _end(self, key: StepKey, signal: int = 0) -> None:
        timer = self._timers.pop(key, None)
        if timer is None:
            return
        timer.cancel()
        self._steps.running.pop((self._config.name, key), None)
        self._steps.ended += 1
        if self._steps.profile:
            report = node_pb2.StepProfile(key=wire.to_key(key), profile=self._steps.profile)
            self.post(core.ForwardReport(node_pb2.Report(profile=report).SerializeToString()))
        start_at_us = self._machine.steps[key].start_at_us
        self.post(core.StepEnded(key, start_at_us, self._clock.now_us(), exit_signal=signal))

    def _heartbeat(self) -> node_pb2.Heartbeat:
        now_us = self._clock.now_us()
        gpus = self._gpus.readings(now_us) if self._gpus is not None else None
        return node_pb2.Heartbeat(cpu_load_centi=0, free_memory_mb=self._config.real_memory_mb, at_us=now_us, gpus=gpus)

    def _registration(self) -> node_pb2.Register:
        machine = self._machine
        waiting = machine.unacknowledged_ends()
        return node_pb2.Register(
            node_name=self._config.name,
            boot_id="hollow",
            version=__version__,
            protocol=PROTOCOL,
            inventory=self._inventory,
            held=[
                wire.held_step(step, not step.is_live and step.key not in waiting) for step in machine.steps.values()
            ],
            started_at_us=self._started_at_us,
            epoch_seen=machine.epoch,
            spool_id=machine.spool_id,
        )


def an_hour(gpus: int) -> bytes:
    """A profile of an hour, a point each 15 s: values that vary at random, which compress worse than a program's."""
    chance = random.Random(gpus)
    host, lines = SampleLine(len(COLUMNS[HOST])), [SampleLine(len(COLUMNS[GPU])) for _ in range(gpus)]
    for number in range(1, 241):
        memory_kb, read = 60_000_000 + chance.randrange(1_000_000), chance.randrange(50_000_000)
        host.add(150 * number, (chance.randrange(64_000), memory_kb, read, chance.randrange(5_000_000)))
        for line in lines:
            power_mw = 300_000 + chance.randrange(400_000)
            busy = chance.randrange(1001), 70_000_000 + chance.randrange(1_000_000), power_mw, 40 + chance.randrange(40)
            line.add(150 * number, (*busy, chance.randrange(100)))
    return encode_profile([(HOST, "", host), *((GPU, f"GPU-{place:036d}", line) for place, line in enumerate(lines))])


def inventory(config: NodeConfig, gpus: HollowGpus | None) -> node_pb2.Inventory:
    """The inventory of a machine with the configured sizes; without `gpus` its GPUs have no UUIDs: there are no devices."""
    message = node_pb2.Inventory(
        cpus=config.cpus,
        boards=config.boards,
        sockets=config.sockets,
        cores_per_socket=config.cores_per_socket,
        threads_per_core=config.threads_per_core,
        real_memory_mb=config.real_memory_mb,
        tmp_disk_mb=config.tmp_disk_mb,
        os="hollow",
        hostname=config.name,
        pretended=True,
    )
    if gpus is not None:
        message.gpus.extend(gpus.devices())
        return message
    for gres in config.gres:
        if gres.name == "gpu":
            first = len(message.gpus)
            for index in range(first, first + gres.count):
                message.gpus.add(index=index, minor=index, type=gres.type)
    return message


class HollowSettings(NamedTuple):
    """The settings of the process."""

    address: str
    authority: Authority
    nodes: tuple[NodeConfig, ...]
    open_per_s: float
    has_gpus: bool


def settings(conf: Path, open_per_s: float, has_gpus: bool = False) -> HollowSettings:
    """From the cluster's slurm.conf and the CA beside the controller's state."""
    config = load(str(conf)).config
    address = f"{config.controller_addr}:{config.penstock_node_port}"
    authority = load_ca(Path(config.state_save_location) / "ca")
    return HollowSettings(address, authority, tuple(config.nodes), open_per_s, has_gpus)


def target_of(given: HollowSettings, name: str, now_us: int) -> LinkTarget:
    """The controller's address and a node's credentials, made now."""
    key = make_key()
    certificate = given.authority.issue("node", name, key.public_key(), now_us)
    pems = (given.authority.pem, key_to_pem(key), to_pem(certificate))
    return LinkTarget(given.address, grpc.ssl_channel_credentials(*pems))


async def serve(given: HollowSettings, steps: Steps, words: asyncio.StreamReader, say: Callable[[str], None]) -> None:
    """Opens the nodes one after the other, then executes commands until the end of the input."""
    clock = Clock()
    up: dict[str, None] = {}

    def note(name: str) -> Callable[[], None]:
        def on_up() -> None:
            if name not in up:
                up[name] = None
                if len(up) == len(given.nodes):
                    say(json.dumps({"registered": len(up)}))

        return on_up

    nodes = [
        Hollow(
            one,
            target_of(given, one.name, clock.now_us()),
            clock,
            steps,
            note(one.name),
            HollowGpus(one) if given.has_gpus else None,
        )
        for one in given.nodes
    ]
    tasks = [asyncio.create_task(steps.end_some())]
    executing = asyncio.create_task(_execute_commands(steps, words, say))
    try:
        for node in nodes:
            tasks.append(asyncio.create_task(node.link.run()))
            await asyncio.sleep(1 / given.open_per_s)
        done, _ = await asyncio.wait([executing, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (executing, *tasks):
            task.cancel()
        await asyncio.gather(executing, *tasks, return_exceptions=True)


async def _execute_commands(steps: Steps, words: asyncio.StreamReader, say: Callable[[str], None]) -> None:
    while line := (await words.readline()).split():
        if line[0] == b"ends":
            steps.set_rate(float(line[1]))
        elif line[0] == b"profile":
            steps.profile = b"" if line[1] == b"none" else an_hour(int(line[1]))
        say(json.dumps({"began": steps.began, "ended": steps.ended, "running": len(steps.running)}))


async def _main(given: HollowSettings, ends_per_s: float) -> None:
    loop = asyncio.get_running_loop()
    words = asyncio.StreamReader()
    steps = Steps()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
    steps.set_rate(ends_per_s)
    await serve(given, steps, words, lambda text: print(text, flush=True))


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.hollow", description=__doc__.partition("\n")[0])
    parser.add_argument("--conf", type=Path, required=True, help="the cluster's slurm.conf")
    parser.add_argument("--ends-per-s", type=float, default=0.0, help="end so many steps a second (%(default)s)")
    parser.add_argument("--open-per-s", type=float, default=OPEN_PER_S, help="connections a second (%(default)s)")
    parser.add_argument("--gpus", action="store_true", help="GPUs are devices that say what they do")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_main(settings(asked.conf, asked.open_per_s, asked.gpus), asked.ends_per_s))


if __name__ == "__main__":
    main()
