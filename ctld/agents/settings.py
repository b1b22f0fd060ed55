"""What the configuration says to node daemons, as the message that carries it. No decisions.

Sent with every registration and after every reload; a node daemon reads no configuration file. What a node does not
know yet it leaves alone, so fields may be added freely.
"""

from penstock.v1 import node_pb2
from penstock.values.config import CgroupConfig, Config


def node_settings(config: Config) -> node_pb2.NodeSettings:
    """All that a node daemon has to know of the configuration."""
    return node_pb2.NodeSettings(
        unkillable_step_program=config.unkillable_step_program,
        acct_gather_frequency_s=config.job_acct_gather_frequency_s,
        acct_gather_type=config.job_acct_gather_type,
        cgroup=_cgroup(config.cgroup),
        task_plugin=",".join(config.task_plugin),
        kill_wait_s=config.kill_wait_s,
        prolog=config.prolog,
        epilog=config.epilog,
        task_prolog=config.task_prolog,
        task_epilog=config.task_epilog,
        prolog_flags=[flag.upper() for flag in config.prolog_flags],
        prolog_epilog_timeout_s=config.prolog_epilog_timeout_s,
        health_check_program=config.health_check_program,
        health_check_interval_s=config.health_check_interval_s,
        health_check_node_state=config.health_check_node_state,
        reboot_program=config.reboot_program,
        private_tmp=config.private_tmp,
        private_tmp_folders=config.private_tmp_folders if config.private_tmp else (),
        allow_new_privs=config.allow_new_privs,
        use_pam=config.use_pam,
    )


def _cgroup(config: CgroupConfig) -> node_pb2.CgroupSettings:
    return node_pb2.CgroupSettings(
        constrain_cores=config.constrain_cores,
        constrain_ram=config.constrain_ram,
        constrain_swap=config.constrain_swap and config.constrain_ram,
        constrain_devices=config.constrain_devices,
        allowed_ram_percent=config.allowed_ram_percent,
        allowed_swap_percent=config.allowed_swap_percent,
        min_ram_mb=config.min_ram_mb,
        max_ram_percent=config.max_ram_percent,
        max_swap_percent=config.max_swap_percent,
        plugin=config.plugin,
        pids_max=config.penstock_max_pids_per_job,
        signal_children=config.signal_children,
    )
