"""The parameters that a seed draws at the start: the size of the cluster, the kinds of faults and their strength. Swarm
testing: a world with every fault hides some behind others, so each seed leaves out about half of them. All draws are
here and in the world's own random sources.
"""

from random import Random

import msgspec

from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres

#: Actions of users: name -> weight. Names are methods of `sim.people.People` and of `sim.stepping.Clients`.
DEEDS = {
    "submit": 14, "submit_array": 4, "submit_dependent": 4, "cancel": 4, "hold": 2, "release": 2, "requeue": 3,
    "requeue_hold": 1, "update": 3, "await_job": 1, "drain": 2, "resume": 3, "partition_state": 1, "reconfigure": 2,
}  # fmt: skip
#: Actions that start steps: some worlds have them, drawn from a separate random source.
STEP_DEEDS = {"submit_srun": 6, "submit_salloc": 3, "make_steps": 12, "cancel_step": 3}
#: Suspensions by an operator, and faults of storage: some worlds have them, drawn from a separate random source.
SUSPENSION_DEEDS = {"suspend_job": 6, "resume_job": 4}
STORAGE_FAULTS = {"start_on_full_disk": 3, "start_node_on_full_disk": 3, "database_away": 3}
#: Actions of every world: without them nothing happens.
NEEDED = ("submit", "resume")
#: Faults: name -> weight. Names are methods of `sim.faults.Faults`.
FAULTS = {
    "power_cycle": 2, "declare_down": 1, "kill_daemon": 4, "lose_spool": 1, "lose_supervisor": 1, "kill_controller": 6,
    "cut": 4, "half_open": 2, "part_shortly": 2, "part": 3, "clock_forward": 1, "clock_back": 1, "storage_full": 1,
    "commit_fails": 1, "commit_answer_lost": 1,
}  # fmt: skip
#: Faults of worlds in which GPUs are known by name.
GPU_FAULTS = {"gpu_lost": 3, "gpu_degraded": 6, "gpu_well": 6}


class SwarmOptions(msgspec.Struct, frozen=True):
    """One world. Times as their names say; chances are between 0 and 1."""

    seed: int
    steps: int
    nodes: int
    cpus: int
    gpus: int
    gpus_named: bool
    gpus_typed: bool  # in the file; else nodes report it
    kill_wait_s: int
    slurmd_timeout_s: int
    lease_s: int
    node_fail_policy: str
    min_job_age_s: int
    return_to_service: int
    max_batch_requeue: int
    quick_depth: int  # rows that a quick pass plans: a small number makes full passes matter
    plan_max_us: int
    commit_max_us: int
    delay_max_us: int
    repeats: float
    lost_replies: float
    skew_max_us: int
    pause_mean_s: float
    run_max_s: int
    deeds: dict[str, int]
    vanish: float  # share of sruns and sallocs that die silently
    inactive_limit_s: int
    has_extern_steps: bool
    faults: dict[str, int]

    def text(self) -> str:
        """The options as lines of a report."""
        shown = msgspec.structs.asdict(self)
        lines = [f"  {name} = {value}" for name, value in shown.items() if name not in ("deeds", "faults")]
        return "\n".join([*lines, f"  deeds: {' '.join(self.deeds)}", f"  faults: {' '.join(self.faults) or 'none'}"])


def draw(seed: int, steps: int) -> SwarmOptions:
    """The options of a seed."""
    random = Random(f"penstock world {seed}")  # noqa: S311 (chance for tests)
    pick = random.choice
    leases = Random(f"penstock world {seed} leases")  # noqa: S311 (chance for tests; of its own: seeds stay what they were)
    steps_of = Random(f"penstock world {seed} steps of srun")  # noqa: S311 (chance for tests; likewise)
    step_deeds = {word: weight for word, weight in STEP_DEEDS.items() if steps_of.random() < 0.8}
    if steps_of.random() < 0.4:
        step_deeds = {}
    gpus_of = Random(f"penstock world {seed} gpus")  # noqa: S311 (chance for tests; likewise)
    named, typed = gpus_of.random() < 0.6, gpus_of.random() < 0.6
    fault_share = pick((0.0, 0.3, 0.6, 1.0))
    storage_of = Random(f"penstock world {seed} suspensions and storage")  # noqa: S311 (chance for tests; likewise)
    suspension_deeds = SUSPENSION_DEEDS if storage_of.random() < 0.5 else {}
    storage_faults = {word: weight for word, weight in STORAGE_FAULTS.items() if storage_of.random() < fault_share / 2}
    gpu_faults = {word: weight for word, weight in GPU_FAULTS.items() if named and gpus_of.random() < 0.7}
    return SwarmOptions(
        seed=seed,
        steps=steps,
        nodes=random.randint(1, 5),
        cpus=pick((2, 4, 8)),
        gpus=pick((0, 2, 4)),
        gpus_named=named,
        gpus_typed=typed or not named,
        kill_wait_s=pick((5, 30)),
        slurmd_timeout_s=pick((20, 60, 300)),
        lease_s=leases.choice((0, 240)),
        node_fail_policy=leases.choice(("requeue", "requeue", "keep")),
        min_job_age_s=pick((10, 60, 300)),
        return_to_service=pick((0, 1, 2)),
        max_batch_requeue=pick((2, 5)),
        quick_depth=pick((1, 3, 128)),
        plan_max_us=pick((20_000, 5_000_000)),
        commit_max_us=pick((2_000, 2_000, 300_000, 4_000_000)),
        delay_max_us=pick((10_000, 300_000, 5_000_000)),
        repeats=pick((0.0, 0.0, 0.1)),
        lost_replies=pick((0.0, 0.2)),
        skew_max_us=pick((0, 0, 3_000_000, 3_600_000_000)),
        pause_mean_s=pick((0.5, 3.0, 10.0)),
        run_max_s=pick((5, 60, 400)),
        deeds={word: weight for word, weight in DEEDS.items() if word in NEEDED or random.random() < 0.7}
        | step_deeds
        | suspension_deeds,
        vanish=steps_of.choice((0.0, 0.3)),
        inactive_limit_s=steps_of.choice((0, 120)),
        has_extern_steps=steps_of.random() < 0.25,
        faults={word: weight for word, weight in FAULTS.items() if random.random() < fault_share}
        | gpu_faults
        | storage_faults,
    )


def gpu_types(options: SwarmOptions) -> tuple[str, ...]:
    """The cards of each node."""
    half = options.gpus // 2
    return ("a100",) * half + ("h100",) * (options.gpus - half)


def configuration(options: SwarmOptions) -> Config:
    """The configuration for the options: partition `debug` with all nodes, `small` with the first."""
    names = tuple(f"n{i}" for i in range(1, options.nodes + 1))
    types = gpu_types(options)
    models = tuple(Gres("gpu", type_, types.count(type_)) for type_ in dict.fromkeys(types))
    if not options.gpus_typed:
        models = (Gres("gpu", "", options.gpus),)
    gres = (*models, Gres("shard", "", 4 * options.gpus)) if options.gpus else ()
    nodes = tuple(
        NodeConfig(name, name, "127.0.0.1", options.cpus, real_memory_mb=4000, gres=gres, weight=1 + i % 2)
        for i, name in enumerate(names)
    )
    return Config(
        scheduler_parameters=(("default_queue_depth", str(options.quick_depth)),),
        cluster_name="world",
        gres_types=("gpu", "shard"),
        nodes=nodes,
        partitions=(
            PartitionConfig("debug", names, is_default=True),
            PartitionConfig("small", names[:1], max_time_s=600, default_time_s=60, priority_tier=2),
        ),
        def_mem_per_cpu_mb=100,
        kill_wait_s=options.kill_wait_s,
        slurmd_timeout_s=options.slurmd_timeout_s,
        lease_time_s=options.lease_s,
        node_fail_policy=options.node_fail_policy,
        min_job_age_s=options.min_job_age_s,
        return_to_service=options.return_to_service,
        max_batch_requeue=options.max_batch_requeue,
        mpi_ports=(12_000, 12_007),
        inactive_limit_s=options.inactive_limit_s,
        prolog_flags=("Alloc", "Contain") if options.has_extern_steps else (),
    )
