"""Computes a request's demand in numbers: GPUs and their parts, tasks on nodes, factors of priority. Pure functions.
Never reads the state.
"""
