"""Prompts: chat templates, and exact masks of what came from the record."""
