"""What a site's filter of options in Python imports (docs/hooks.md): it runs beside sbatch, salloc and srun, as their user.

    from penstock.clifilter import CommandCall, Refuse, log_user

    def pre_submit(options: dict[str, str], call: CommandCall) -> None:
        if "account" not in options:
            raise Refuse("name an account: --account=ACCOUNT")

Options are texts by their long names; a flag that is set has the text "set". A new text changes an option, a name that is
deleted, or has None, removes it.
"""

from dataclasses import dataclass

from penstock.submitfilter import Refuse as Refuse
from penstock.submitfilter import log_user as log_user


@dataclass(frozen=True, slots=True)
class CommandCall:
    """What is known of the call beside its options."""

    command: str  # sbatch, salloc, srun
    component: int = 0  # of a heterogeneous job
    job_id: int = 0  # of post_submit
    step_id: int | None = None  # of post_submit of srun
