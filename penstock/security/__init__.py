"""Keys, certificates and tokens. Read in this order: keyfiles, ca, tokens, authd, join, tls.

Who is who: every daemon holds a certificate of the cluster's own CA that names its role (controller, node, login);
users hold nothing. A user's command asks the Unix socket of a daemon on its own machine for a one-use token, and the
kernel tells that daemon whose command it is. Nothing here keeps a secret that is shared by two machines.

Not imported by commands: `cryptography` costs more than a whole `squeue`.
"""
