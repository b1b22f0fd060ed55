"""Keys, certificates and tokens. Reading order: keyfiles, ca, tokens, authd, join, tls.

Identities: every daemon has a certificate of the cluster's own CA that states its role (controller, node, login); users
have none. A user's command gets a one-use token from the Unix socket of a daemon on the same machine, which identifies
the user by the kernel's peer credentials. No secret is shared by two machines.

Users' commands import only modules without `cryptography`, whose import takes longer than a whole `squeue`.
"""
