"""The gRPC edge: authentication and rights, messages to events and rows to messages, no decisions.

Reading order: `server` (listeners, services), `controller`, `accounting`, `nodelink` (the services), `jobs/submission`
(requests), `jobinfo`, `clusterinfo`, `records` (answers), `users` (names to uids), `refusals` (core to gRPC).
"""
