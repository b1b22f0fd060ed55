"""The faults of a fault world: one method for each kind. Each affects one part and is recorded in the trace."""

from collections.abc import Callable
from random import Random

from sim.checkers import Checkers
from sim.network import CTLD, NODE, Network
from sim.people import People
from sim.simctld import CRASH_POINTS, SimController
from sim.simnode import CRASH_POINTS as NODE_POINTS
from sim.simnode import SimNode
from sim.timeline import US, Timeline


class Faults:
    """All faults that a seed may draw."""

    def __init__(
        self, timeline: Timeline, random: Random, network: Network, ctld: SimController, nodes: dict[str, SimNode],
        people: People, checkers: Checkers,
    ) -> None:  # fmt: skip
        self._timeline = timeline
        self._random = random
        self._network = network
        self._checkers = checkers
        self._ctld = ctld
        self._nodes = nodes
        self._people = people
        self.stopped = False

    def _node(self) -> SimNode:
        return self._nodes[self._random.choice(list(self._nodes))]

    def _later(self, low_us: int, high_us: int, act: Callable[[], None]) -> None:
        self._timeline.after(self._random.randint(low_us, high_us), act)

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def power_cycle(self) -> None:
        """A node loses power and boots again."""
        node = self._node()
        self._checkers.disturbed(node.name)
        node.power_off()
        self._later(5 * US, 200 * US, node.power_on)

    def declare_down(self) -> None:
        """A node fails and an administrator sets it DOWN; it is repaired later."""
        node = self._node()
        self._checkers.disturbed(node.name)
        node.power_off()
        self._people.set_node(node.name, "down")
        self._later(100 * US, 400 * US, node.power_on)

    def kill_daemon(self) -> None:
        """kill -9 of a node daemon at some point of its next turns."""
        node = self._node()
        point = self._random.choice((*NODE_POINTS, "now"))
        self._checkers.disturbed(node.name)
        if point == "now":
            node.stop_daemon(self._random.randint(10_000, 60 * US))
        else:
            node.armed = (point, self._random.randint(1, 4))

    def lose_spool(self) -> None:
        """A node daemon dies and its spool is wiped; or both with the machine."""
        node = self._node()
        self._checkers.disturbed(node.name)
        if self._random.random() < 0.3:
            node.power_off()
            self._later(5 * US, 60 * US, node.power_on)
        else:
            node.stop_daemon(self._random.randint(1 * US, 30 * US))
        node.lose_spool()

    def lose_supervisor(self) -> None:
        """kill -9 of a stepd: its node daemon kills what it supervised."""
        node = self._node()
        if node.processes:
            node.lose_supervisor(self._random.choice(list(node.processes)))

    # ---- GPUs ----------------------------------------------------------------------------------------------------

    def gpu_lost(self) -> None:
        """A GPU falls off the bus."""
        node = self._node()
        node.change_gpus("a GPU is lost", node.gpus.lose)

    def gpu_degraded(self) -> None:
        """A node reports one of its GPUs as degraded."""
        node = self._node()
        node.change_gpus("a GPU is degraded", lambda: node.gpus.degrade(node.now_us()))

    def gpu_well(self) -> None:
        """A GPU is healthy again."""
        node = self._node()
        node.change_gpus("a GPU is well", lambda: node.gpus.recover(node.now_us()))

    # ---- network -------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """A stream breaks."""
        node = self._node()
        self._checkers.disturbed(node.name)
        self._timeline.say(0, f"the stream of {node.name} breaks")
        for stream in self._network.of(node.name):
            stream.cut()

    def half_open(self) -> None:
        """One direction of a stream loses all messages."""
        node, side = self._node(), self._random.choice((NODE, CTLD))
        self._checkers.disturbed(node.name)
        self._timeline.say(0, f"nothing from the {side} gets through on the stream of {node.name}")
        for stream in self._network.of(node.name):
            stream.drop_messages(side)

    def part_shortly(self) -> None:
        """A stall shorter than the detection time."""
        self._part(self._random.randint(100_000, 14 * US))

    def part(self) -> None:
        """A node is cut off for longer, sometimes for longer than any lease."""
        self._part(self._random.randint(16 * US, 500 * US))

    def _part(self, duration_us: int) -> None:
        node = self._node()
        self._checkers.disturbed(node.name)
        self._timeline.say(0, f"{node.name} is cut off for {duration_us / US:.1f} s")
        self._network.part(node.name, duration_us)

    # ---- controller ----------------------------------------------------------------------------------------------

    def kill_controller(self) -> None:
        """kill -9 of the controller at some point of its next work."""
        if self._random.random() < 0.2:
            self._ctld.crash("now")
        else:
            self._ctld.armed = (self._random.choice(CRASH_POINTS), self._random.randint(1, 6))

    def clock_forward(self) -> None:
        """The controller's wall clock is set forward."""
        self._jump(self._random.choice((2, 300, 3_600)) * US)

    def clock_back(self) -> None:
        """The controller's wall clock is set back."""
        self._jump(-self._random.choice((2, 300, 3_600)) * US)

    def _jump(self, jump_us: int) -> None:
        self._checkers.clock_set = True
        self._checkers.clock_jumped = True
        self._ctld.jump(jump_us)

    def storage_full(self) -> None:
        """The next commit finds no room."""
        self._ctld.store.connection.fault = "full"

    def database_away(self) -> None:
        """The database's server does not answer, neither commits nor a start."""
        away_us = self._random.randint(1 * US, 90 * US)
        self._timeline.say(0, f"the database is away for {away_us / US:.1f} s")
        self._ctld.store.away_until_us = self._timeline.now_us + away_us
        self._checkers.database_away(self._ctld.store.away_until_us)

    def start_on_full_disk(self) -> None:
        """The controller dies, and its next starts find no room in the database."""
        self._ctld.full_starts = self._random.randint(1, 3)
        self._ctld.crash("now")

    def start_node_on_full_disk(self) -> None:
        """A node daemon dies, and its next starts find no room in the spool."""
        node = self._node()
        node.full_starts = self._random.randint(1, 3)
        self._checkers.disturbed(node.name)
        node.stop_daemon(self._random.randint(10_000, 30 * US))

    def commit_fails(self) -> None:
        """The next commit fails; the controller ends."""
        self._ctld.store.connection.fault = "failed"

    def commit_answer_lost(self) -> None:
        """The next commit is done, and its answer is lost."""
        self._ctld.store.connection.fault = "lost"
