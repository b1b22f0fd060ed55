"""A fault world: controller, nodes, network and users in virtual time, with all events drawn from one seed. Phase 1
(safety): for a number of steps, requests and faults. Phase 2 (liveness): all faults stop, everything is repaired, and
every job must end, every node must be idle and every answer, process and row of the database must agree. The oracles
(checkers.py) check all the time. The essential parts are real: `ctld.core`, `ctld.store` on SQLite in memory,
`nodedaemon.core`. Not simulated: gRPC and the wire format, real processes (tests/e2e has those), a second live
controller.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from penstock.values.states import END_STATES, NodeFlag
from sim.checkers import Broken, Checkers
from sim.faults import Faults
from sim.network import Network
from sim.people import People
from sim.simctld import SimController
from sim.simgpus import SimGpus
from sim.simnode import SimNode
from sim.stepping import Clients
from sim.swarm import SwarmOptions, configuration, draw, gpu_types
from sim.timeline import US, Timeline

START_US = 1_700_000_000 * US
STEPS = 100
#: In phase 2: the interval of administration, the longest time without a change, the longest time in all.
TEND_US = 30 * US
STUCK_US = 7_200 * US
HEALING_MAX_US = 400_000 * US
#: With a larger difference between the clocks of nodes and controller, their times are not compared.
SKEW_TRUSTED_US = 5 * US
#: After the last job has ended: time for the last acknowledgements.
REST_US = 120 * US


class SimWorld:
    """One seed. `run` raises Broken."""

    def __init__(
        self, seed: int, steps: int = STEPS, record: Path | None = None, options: SwarmOptions | None = None
    ) -> None:
        self.options = options or draw(seed, steps)
        self.timeline = Timeline(START_US)
        self.checkers = Checkers(self.timeline)
        self._random = self._source("steps")
        config = configuration(self.options)
        self.checkers.configured(config)
        self.checkers.clock_jumped = self.options.skew_max_us > SKEW_TRUSTED_US
        network = self.network = Network(
            self.timeline, self._source("network"), self.options.delay_max_us, self.options.repeats
        )
        self.ctld = SimController(self.timeline, network, self.checkers, self._source("controller"), config, record)
        self.ctld.commit_max_us = self.options.commit_max_us
        self.ctld.plan_max_us = self.options.plan_max_us
        self.people = People(self.options, self.timeline, self._source("people"), self.ctld, self.checkers, config)
        self.clients = Clients(
            self.options, self.timeline, self._source("clients"), self.ctld, self.checkers, self.people
        )
        self.nodes: dict[str, SimNode] = {}
        for entry in config.nodes:
            random = self._source(entry.name)
            skew_us = random.randint(-self.options.skew_max_us, self.options.skew_max_us)
            self.nodes[entry.name] = SimNode(
                entry, self.timeline, network, self.checkers, random, self.ctld, self.people.behaviour_of, skew_us
            )
            if self.options.gpus_named:
                gpus = SimGpus(entry, self._source(f"{entry.name} gpus"), gpu_types(self.options))
                self.nodes[entry.name].gpus = gpus
        self.faults = Faults(
            self.timeline, self._source("faults"), network, self.ctld, self.nodes, self.people, self.checkers
        )

    def _source(self, part: str) -> Random:
        return Random(f"penstock world {self.options.seed} {part}")  # noqa: S311 (chance for tests)

    def run(self) -> str:
        """Both phases. Returns a digest of all that happened. Raises Broken."""
        try:
            self._start()
            self._disturb()
            self._heal()
        finally:
            self.ctld.store.close()
        return f"{self.timeline.digest()[:32]}-{self.ctld.core.digest()[:32]}"

    def _start(self) -> None:
        self.ctld.boot()
        for node in self.nodes.values():
            node.start_daemon()

    def _action(self, word: str) -> Callable[[], None]:
        """The method of a name in sim/swarm.py."""
        found: Callable[[], None] = getattr(self.clients if hasattr(Clients, word) else self.people, word)
        return found

    def _disturb(self) -> None:
        deeds = [(self._action(word), weight) for word, weight in self.options.deeds.items()]
        deeds += [(getattr(self.faults, word), weight) for word, weight in self.options.faults.items()]
        acts, weights = zip(*deeds, strict=True)
        for _ in range(self.options.steps):
            pause_us = int(self._random.expovariate(1 / (self.options.pause_mean_s * US)))
            self.timeline.run(self.timeline.now_us + pause_us)
            self._random.choices(acts, weights)[0]()

    def _heal(self) -> None:
        self.timeline.say(0, "---- faults stop, everything is repaired ----")
        self.network.heal()
        self.ctld.armed = ("", 0)
        self.ctld.store.connection.fault = ""
        self.ctld.store.away_until_us = 0
        self.ctld.full_starts = 0
        self.ctld.commit_max_us = 2_000
        for node in self.nodes.values():
            node.armed = ("", 0)
            node.full_starts = 0
            node.power_on()
            node.change_gpus("all GPUs are repaired", node.gpus.repair)
        self.people.heal()
        begun_us = changed_us = self.timeline.now_us
        before = ""
        while self._is_busy():
            self.clients.tend()
            self.people.tend()
            self.timeline.run(self.timeline.now_us + TEND_US)
            if (seen := self._progress()) != before:
                before, changed_us = seen, self.timeline.now_us
            behind_us = 2 * max(
                0, -self.ctld.offset_us
            )  # a clock that was set back runs at half speed until it is right
            if self.timeline.now_us > min(changed_us + STUCK_US + behind_us, begun_us + HEALING_MAX_US):
                raise Broken("liveness", f"these do not end: {self._left()}", next(iter(self._active()), 0))
        self.timeline.run(self.timeline.now_us + REST_US)
        self._check_idle()
        self.checkers.final(self.ctld.store.database)

    def _active(self) -> list[int]:
        return [job_id for job_id, row in self.checkers.last.items() if row.state not in END_STATES]

    def _is_busy(self) -> bool:
        return bool(self._active() or self.people.open_requests or self.checkers.live or not self._is_open())

    def _is_open(self) -> bool:
        return self.ctld.up and all(
            node.connected and not node.flags & ~NodeFlag.NONE for node in self.ctld.core.state.node_list
        )

    def _progress(self) -> str:
        rows = self.checkers.last.values()
        return f"{[(r.job_id, r.attempt, int(r.state)) for r in rows if r.state not in END_STATES]}{len(rows)}"

    def _left(self) -> str:
        rows = [self.checkers.last[job_id] for job_id in self._active()]
        jobs = [f"job {r.job_id}.{r.attempt} {r.state.name} {r.reason.value}" for r in rows[:10]]
        nodes = [
            f"{n.name} {n.flags.name or 'up'} {'' if n.connected else 'not '}connected"
            for n in self.ctld.core.state.node_list
        ]
        return "; ".join([*jobs, *nodes, f"{self.people.open_requests} requests"])

    def _check_idle(self) -> None:
        for node in self.ctld.core.state.node_list:
            if node.cpus_alloc or node.mem_alloc_mb or node.jobs or any(node.gres_used.values()):
                raise Broken("liveness", f"{node.name} holds {node.cpus_alloc} cpus for jobs {list(node.jobs)}")
            if node.gpu_closed or node.gpu_single or node.gpu_suspect:
                raise Broken("liveness", f"{node.name}: GPUs are well, and {node.gpu_closed:b} closed all the same")
        for machine in self.nodes.values():
            known = machine.machine
            if known is None or known.steps or known.unacked or machine.processes or machine.disk.ends:
                held = list(known.steps.values()) if known else []
                shown = ", ".join(f"{step.key} {step.state.name}" for step in held) or "no daemon, or reports, or ends"
                raise Broken("liveness", f"{machine.name} is not idle: {shown}", held[0].key.job_id if held else 0)
