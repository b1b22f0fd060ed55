"""One process a step: becomes the user, starts tasks, carries streams, records the end. Never talks to the controller."""
