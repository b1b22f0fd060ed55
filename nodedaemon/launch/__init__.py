"""Launch orders for the launcher and stepd: binding, containment, the site's settings. Never starts a process."""
