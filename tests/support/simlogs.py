"""Small logs for the simulator: one that takes no time, and one that takes longer than any test."""

SWF = "; MaxProcs: 4\n1 0 6 10 3 -1 -1 3 10 -1 1 7 1 -1 -1 -1 -1 -1\n2 1 9 10 4 -1 -1 4 10 -1 1 7 1 -1 -1 -1 -1 -1\n"
#: Under conservative backfill it takes far longer than a test.
HEAVY = "; MaxProcs: 128\n" + "".join(
    f"{k} {k // 50} -1 {5000 + k % 997} {1 + k % 64} -1 -1 {1 + k % 64} {9000 + k % 997} -1 1 {k % 9} 1 -1 -1 -1 -1 -1\n"
    for k in range(20_000)
)
#: Some days of a machine with 16 GPUs that is asked for more than it has, as `sacct -P` prints them.
BUSY = "JobID|User|Account|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|AllocTRES|State\n" + "".join(
    f"{k}|u{k % 9}|lab|{submit}|{submit + 60 * (k % 211)}|{submit + 60 * (k % 211) + run}|{run}|{run // 30}|1|{2 * gpus}"
    f"|cpu={2 * gpus},mem=4G,node=1,gres/gpu={gpus}|COMPLETED\n"
    for k in range(600)
    for submit, run, gpus in [(1_700_000_000 + 700 * k - 400 * (k % 40), 300 + 31 * (k * k % 131), 1 + k * k % 7)]
)
