"""SLURM_JWT: commands on a machine that has nothing of the cluster but its address and its certificate authority."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

from livecluster import ClusterConf, LiveCluster

from penstock.clusterfile import ClusterFile, read_cluster, write_cluster

New = Callable[..., LiveCluster]
JWT = ClusterConf(more=("AuthAltTypes=auth/jwt",))
OWN = pwd.getpwuid(os.geteuid())
IS_ROOT = OWN.pw_uid == 0
#: The tokens' user: of root's cluster one without rights.
USER = pwd.getpwnam("nobody") if IS_ROOT else OWN
#: The user at the other machine, whom the cluster does not know.
STRANGER_UID = 54_321 if IS_ROOT else None


def laptop(cluster: LiveCluster) -> Path:
    """A cluster file as it lies on another machine: no socket of the controller."""
    held = read_cluster(cluster.cluster_file)
    ca = cluster.work / "ca.pem"
    ca.write_bytes(Path(held.ca).read_bytes())
    path = cluster.work / "laptop.json"
    write_cluster(path, ClusterFile(cluster_name=held.cluster_name, address=held.address, ca=str(ca)))
    for file in (ca, path):
        file.chmod(0o644)
    return path


def test_commands_from_a_machine_outside(new_cluster: New) -> None:
    cluster = new_cluster(1, JWT)
    away = {"PENSTOCK_CLUSTER": str(laptop(cluster))}
    printed = cluster.run("scontrol", "token", f"username={USER.pw_name}", "lifespan=600").ok().out.strip()
    name, _, token = printed.partition("=")
    assert name == "SLURM_JWT"

    def outside(*words: str, **env: str):
        return cluster.run(*words, uid=STRANGER_UID, env={**away, name: token, **env})

    out = cluster.work / "out.txt"
    out.touch()
    out.chmod(0o666)
    shown = outside("sbatch", "--parsable", "-D", "/tmp", "-o", str(out), "--wrap", "id -un; env").ok().out
    job_id = int(shown)
    cluster.wait_ends(job_id)
    lines = out.read_text().splitlines()
    assert lines[0] == USER.pw_name
    assert not any(line.startswith("SLURM_JWT") for line in lines)
    assert (
        f"{job_id}|{USER.pw_name}|" in outside("sacct", "-nP", "-X", "-j", str(job_id), "-o", "jobid,user,end").ok().out
    )
    held = int(outside("sbatch", "--parsable", "--hold", "-D", "/tmp", "--wrap", "true").ok().out)
    assert outside("squeue", "-h", "-o", "%i %u").ok().out == f"{held} {USER.pw_name}\n"
    assert outside("srun", "-D", "/tmp", "--quiet", "id", "-un").ok().out == f"{USER.pw_name}\n"
    outside("scancel", str(held)).ok()
    # Without one, or with one that is not valid, nothing answers; what is said names no token.
    for env in ({name: ""}, {name: token[:-3] + "abc"}, {name: "x\ny"}, {name: "junk"}):
        refused = outside("squeue", **env)
        assert refused.status == 1 and token not in refused.err and "Traceback" not in refused.err
    assert "signature is wrong" in outside("squeue", SLURM_JWT=token[:-3] + "abc").err
    outside("scontrol", "token", "revoke").ok()
    done = outside("squeue")
    assert done.status == 1 and "the token has been revoked" in done.err


def test_a_token_counts_before_the_socket(new_cluster: New) -> None:
    """On the controller's machine, too, the caller is the token's user: also through the command server."""
    cluster = new_cluster(1, JWT)
    printed = cluster.run("scontrol", "token", f"username={USER.pw_name}").ok().out.strip()
    env = {"SLURM_JWT": printed.partition("=")[2]}
    for _ in range(3):
        mine = int(cluster.run("sbatch", "--parsable", "--hold", "-D", "/tmp", "--wrap", "true", env=env).ok().out)
        own = int(cluster.run("sbatch", "--parsable", "--hold", "-D", "/tmp", "--wrap", "true").ok().out)
        shown = cluster.run("squeue", "-h", "-o", "%i %u", "-j", f"{mine},{own}").ok().out.splitlines()
        assert sorted(shown) == sorted([f"{mine} {USER.pw_name}", f"{own} {OWN.pw_name}"])
