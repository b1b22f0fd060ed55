"""Sessions, notebooks and terminals that are jobs: kinds, tickets, tunnels, the proxy on an origin of its own. Never acts with
a login of the web interface."""
