"""The wire's edge: who calls (auth, rights), messages to events and rows to messages, no decisions.

Reading order: `server` (listeners, services), `controller`, `accounting`, `nodelink` (the services), `wanted`
(requests in), `jobinfo`, `clusterinfo`, `records` (answers out), `users` (names to uids), `refusals` (core to gRPC).
"""
