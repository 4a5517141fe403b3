"""Data: sources, sampling and prompts."""
