"""Requests of users about jobs, reservations and crontabs: checked whole, then applied. Never writes what another room
owns but by that room's functions.
"""
