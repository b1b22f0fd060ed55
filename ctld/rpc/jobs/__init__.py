"""Translates requests about jobs and steps to events, and their records to messages. Never decides."""
