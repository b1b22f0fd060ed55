"""Exit statuses of `penstock ctld`, by the names of sysexits.h where one fits. docs/troubleshooting.md has the table.

systemd starts a controller again after every status but those in STAY_DOWN (packaging/penstock-ctld.service): these
need an administrator first, and another start would fail in the same way.
"""

from typing import Final

#: The database is damaged (EX_DATAERR).
DAMAGED: Final = 65
#: The database is older than what was acknowledged (EX_NOINPUT).
OLDER: Final = 66
#: An internal error; the next start continues from the database (EX_SOFTWARE).
SOFTWARE: Final = 70
#: Another controller leads, the database's server does not answer, or storage takes no writes: temporary (EX_TEMPFAIL).
TEMPFAIL: Final = 75
#: The configuration, a key or the state folder cannot be used (EX_CONFIG).
CONFIG: Final = 78

STAY_DOWN: Final = (DAMAGED, OLDER, CONFIG)
