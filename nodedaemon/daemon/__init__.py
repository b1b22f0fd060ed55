"""The daemon: link to the controller, launcher, inventory, adoption of running steps. Never opens a user's path."""
