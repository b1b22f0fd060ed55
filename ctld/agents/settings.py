"""Encodes the part of the configuration that node daemons need as a message. No decisions.

Sent with every registration and after every reload; a node daemon reads no configuration file. A node ignores fields
that it does not know, so fields may be added freely.
"""

from typing import Final

from penstock.v1 import node_pb2
from penstock.values.config import CgroupConfig, Config, NodeConfig

#: The longest interval of profiles that a site has; a job may ask for a longer one.
PROFILE_S_MAX: Final = 15
#: What the metrics of a step say, by the words of PrivateData.
_SHOWN_OF_STEPS: Final = frozenset(("jobs", "users", "accounts", "usage", "partitions"))


def node_settings(config: Config, node: str = "") -> node_pb2.NodeSettings:
    """Returns the part of the configuration that the daemon of that node needs."""
    own = next((one for one in config.nodes if one.name == node), None)
    return node_pb2.NodeSettings(
        unkillable_step_program=config.unkillable_step_program,
        acct_gather_frequency_s=config.job_acct_gather_frequency_s,
        acct_gather_type=config.job_acct_gather_type,
        profile_every_s=min(config.job_acct_gather_frequency_s, PROFILE_S_MAX) if _keeps_profiles(config) else 0,
        hang_after_s=config.hang_after_s,
        hang_signal=config.hang_action[0],
        hang_grace_s=config.hang_action[1],
        cgroup=_cgroup(config.cgroup, config.proctrack_type == "proctrack/cgroup"),
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
        mpi_default=config.mpi_default,
        log_level=config.slurmd_debug,
        log_file=config.slurmd_log_file,
        log_format=config.log_format,
        debug_flags=config.debug_flags,
        slurm_conf=job_conf(config),
        devices=[node_pb2.NodeDevice(name=name, index=index, file=file) for name, index, file in own.device_files]
        if own
        else (),
        gpu=_gpu(config, own),
        metrics=_metrics(config),
    )


def _keeps_profiles(config: Config) -> bool:
    return config.acct_gather_profile_type != "acct_gather_profile/none"


def job_conf(config: Config) -> str:
    """Returns a slurm.conf for jobs, for tools that read the cluster's configuration there. It has no node, no path, no
    secret."""
    same = config.controller_addr == config.controller_host
    host = config.controller_host + ("" if same else f"({config.controller_addr})")
    lines = (
        "# Written by the node daemon for jobs; the whole configuration: scontrol show config",
        f"ClusterName={config.cluster_name}",
        f"SlurmctldHost={host}",
        f"SlurmctldPort={config.slurmctld_port}",
        f"SlurmUser={config.slurm_user}",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "SelectType=select/cons_tres",
    )
    return "\n".join(lines) + "\n"


def _cgroup(config: CgroupConfig, holds: bool) -> node_pb2.CgroupSettings:
    """Encodes the settings of control groups. Without ProctrackType=proctrack/cgroup they are created only for limits."""
    limits = (config.constrain_cores, config.constrain_devices, config.constrain_ram, config.penstock_max_pids_per_job)
    uses_groups = holds or any(limits)
    return node_pb2.CgroupSettings(
        constrain_cores=config.constrain_cores,
        constrain_ram=config.constrain_ram,
        constrain_swap=config.constrain_swap and config.constrain_ram,
        constrain_devices=config.constrain_devices is True,
        fence_where_able=config.constrain_devices is None,
        allowed_ram_percent=config.allowed_ram_percent,
        allowed_swap_percent=config.allowed_swap_percent,
        min_ram_mb=config.min_ram_mb,
        max_ram_percent=config.max_ram_percent,
        max_swap_percent=config.max_swap_percent,
        plugin=config.plugin if uses_groups else "disabled",
        pids_max=config.penstock_max_pids_per_job,
        signal_children=config.signal_children,
    )


def _metrics(config: Config) -> node_pb2.MetricsSettings:
    return node_pb2.MetricsSettings(
        port=config.metrics_node_port if config.metrics_type else 0,
        addr=config.metrics_node_addr,
        allow=config.metrics_allow,
        token_file=config.metrics_token_file,
        tls=config.metrics_tls,
        dcgm_names=config.metrics_dcgm_names,
        default_account=config.penstock_default_account.lower(),
        hides_jobs=_hides_jobs(config),
    )


def _hides_jobs(config: Config) -> bool:
    """Whether PrivateData hides the steps that a node's page shows. A caller with the token is trusted."""
    if config.metrics_token_file or config.has_word("metrics_parameters", "ignore_private_data"):
        return False
    return not _SHOWN_OF_STEPS.isdisjoint(config.private_data)


def _gpu(config: Config, own: NodeConfig | None) -> node_pb2.GpuSettings:
    """Encodes the GPU settings of all nodes, and of this one: gres.conf."""
    return node_pb2.GpuSettings(
        read_only=config.gpu_settings == "read-only",
        xids=[node_pb2.XidRule(xid=xid, class_name=name) for xid, name in config.gpu_xids],
        lost_drains_node=config.gpu_lost_drains_node,
        poll_s=config.gpu_poll_s,
        check_program=config.gpu_check_program,
        reset_program=config.gpu_reset_program,
        idle_warn_s=config.gpu_idle_warn_s,
        idle_percent=config.gpu_idle_percent,
        job_map_dir=config.gpu_job_map_dir,
        accounting_mode=config.gpu_accounting_mode,
        mps_program=config.mps_program,
        detect=own.gpu_detect if own else "",
        env=own.gpu_env if own else (),
        env_uuid=bool(own and own.gpu_env_uuid),
    )
