"""Datasets: sources, the hub, embedded generators, and sampling."""
