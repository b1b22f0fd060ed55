"""Checks of a batch script before it is submitted. Never submits."""
